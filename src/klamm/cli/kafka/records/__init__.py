"""Drop-ins for the Kafka tools that write, read and delete records, and find their offsets."""
