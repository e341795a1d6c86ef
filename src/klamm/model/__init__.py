"""The nouns: topics, partitions, brokers, leadership, assignments, error codes; frozen values."""
