"""The asyncio driver of the client: connections, cluster, producer, consumer, admin."""
