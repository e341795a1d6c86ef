"""A small async Kafka client for the fronts, the followers and the outbox."""
