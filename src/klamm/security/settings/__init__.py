"""Kafka's settings about security: what each comes to here, and whether a broker may start."""
