"""Where the coordinators keep what, as brokers of Kafka would look for it."""

from __future__ import annotations

import pytest

from klamm.broker.coordinators.journal import partition_for


@pytest.mark.parametrize(
    ("key", "partition"),
    [
        # As Kafka 3.9 says; the first and the third have a negative hash.
        ("topic-20-0-9", 5),
        ("topic-20-0-11", 6),
        ("topic-4-0-9", 3),
        ("g1", 2),
        ("group-17", 4),
        ("my-long-group-name", 1),
        # The one number that has no absolute value.
        ("polygenelubricants", 0),
    ],
)
def test_a_key_is_kept_where_kafka_keeps_it(key: str, partition: int) -> None:
    assert partition_for(key, 8) == partition
