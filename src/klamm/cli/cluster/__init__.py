"""Commands about a cluster and its brokers."""
