"""What brokers keep so that callers can prove who they are: SCRAM keys, tokens, passwords."""
