"""Drop-in replacements of Kafka's own tools."""
