"""Drop-ins for the Kafka tool about consumer groups."""
