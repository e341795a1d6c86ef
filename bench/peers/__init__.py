"""klamm beside Apache Kafka and others: the same work with the same clients, in turns."""
