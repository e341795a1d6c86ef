"""The consumer of the latency cell, in a process of its own."""

from __future__ import annotations

import json
import select
import sys
import time

from confluent_kafka import Consumer, TopicPartition

_WARM_NS = 2_000_000_000
_PATIENCE_S = 20.0


def main(bootstrap: str, topic: str, partitions: int) -> None:
    """Read records that begin with a time, until there were as many as stdin says."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "latency", "log_level": 0})
    places = [TopicPartition(topic, at) for at in range(partitions)]
    for place in places:
        place.offset = consumer.get_watermark_offsets(place)[1]
    consumer.assign(places)
    consumer.poll(1)
    print("ready", flush=True)
    delays: list[tuple[int, int]] = []
    total, last = None, time.monotonic()
    while (total is None or len(delays) < total) and time.monotonic() - last < _PATIENCE_S:
        message = consumer.poll(0.2)
        if message is not None and not message.error():
            at = time.monotonic_ns()
            value = message.value()
            assert isinstance(value, bytes)
            sent = int.from_bytes(value[:8], "big")
            delays.append((sent, at - sent))
            last = time.monotonic()
        is_time_to_look = message is None or len(delays) % 100 == 0
        if total is None and is_time_to_look and select.select([sys.stdin], [], [], 0)[0]:
            total = int(sys.stdin.readline())
    consumer.close()
    begin = min(sent for sent, _ in delays) + _WARM_NS
    values = sorted(delay / 1e6 for sent, delay in delays if sent >= begin)
    figures = {
        name: values[min(len(values) - 1, int(len(values) * part))]
        for name, part in (("p50_ms", 0.5), ("p99_ms", 0.99), ("p999_ms", 0.999))
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
