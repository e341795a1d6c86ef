"""klamm: a Kafka cluster in Python whose heart is the topic-lifecycle controller."""

__version__ = "0.1.0"
