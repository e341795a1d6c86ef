"""What Prometheus is told: the numbers that brokers keep, as text, over HTTP."""
