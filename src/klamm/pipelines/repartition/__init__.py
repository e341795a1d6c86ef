"""A topic in another number of partitions: copied, proven equal, and given the topic's name."""
