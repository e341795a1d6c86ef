"""Serves the numbers that brokers keep to Prometheus, as text over HTTP."""
