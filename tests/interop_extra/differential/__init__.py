"""The same requests to klamm and to Apache Kafka, and what differs between their answers.

`dice` makes requests from a seed, `speech` sends them byte for byte, `trees` makes answers
comparable, `differences.toml` lists what differs on purpose, each with its reason.
"""
