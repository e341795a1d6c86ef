"""A well-behaved user in a process of its own: writes a record, reads it back, over and over.

It prints a line for each round trip: when it began, how long it took with all retries, and what was
acknowledged. Whoever started it reads the lines while an attack goes on. A round trip that fails is
tried again, as every client does, until its patience is over; then a line says what was wrong.

    python healthy.py BOOTSTRAP TOPIC
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from hostile.raw import Address, Closed, Raw, describe
from klamm.model.errors import KlammError
from klamm.protocol.apis import ApiKey
from klamm.protocol.batch import Record, decode_records, encode_batch, iter_batches
from klamm.protocol.messages import fetch, produce

PATIENCE_S = 900.0
PAUSE_S = 0.01
ATTEMPT_S = 450.0  # longer than any stall that is measured, so that one stall is one number


class Refused(Exception):
    """An answer with an error code."""


class User:
    """One user of one topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = [Address.parse(text) for text in bootstrap.split(",")]
        self._topic = topic
        self._open: dict[Address, Raw] = {}
        self._leaders: dict[int, Address] = {}

    @property
    def partitions(self) -> list[int]:
        if not self._leaders:
            self.refresh()
        return sorted(self._leaders)

    def close(self) -> None:
        for raw in self._open.values():
            raw.close()
        self._open.clear()

    def refresh(self) -> None:
        """Look anew who leads what."""
        self.close()
        for address in self._bootstrap:
            with suppress(Closed, OSError, KlammError):
                told = describe(address, self._topic)
                brokers = {b.node_id: Address(b.host, b.port) for b in told.brokers}
                self._leaders = {
                    p.partition_index: brokers[p.leader_id]
                    for p in told.topics[0].partitions
                    if p.leader_id in brokers
                }
                if self._leaders:
                    return
        raise Refused(f"nobody knows the leaders of {self._topic}")

    def write(self, partition: int, value: bytes) -> int:
        """Have a record acknowledged by all; its offset."""
        batch = encode_batch([Record(0, int(time.time() * 1000), None, value)])
        data = produce.TopicProduceData(
            self._topic, [produce.PartitionProduceData(partition, batch)]
        )
        request = produce.Request(acks=-1, timeout_ms=30_000, topic_data=[data])
        answer = self._ask(partition, ApiKey.PRODUCE, 9, request)
        told = answer.responses[0].partition_responses[0]
        _check(told.error_code)
        return int(told.base_offset)

    def read(self, partition: int, offset: int, *, max_bytes: int = 1 << 20) -> list[Record]:
        """Records from an offset on."""
        wanted = fetch.FetchPartition(partition, fetch_offset=offset, partition_max_bytes=max_bytes)
        request = fetch.Request(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=max_bytes,
            topics=[fetch.FetchTopic(topic=self._topic, partitions=[wanted])],
        )
        answer = self._ask(partition, ApiKey.FETCH, 11, request)
        told = answer.responses[0].partitions[0]
        _check(told.error_code)
        found = iter_batches(told.records or b"")
        return [r for _, batch in found for r in decode_records(batch) if r.offset >= offset]

    def round_trip(self, number: int) -> dict[str, Any]:
        """Write and read back one record, with as many attempts as that takes."""
        began, partition = time.monotonic(), -1
        value = b"healthy %d" % number
        faults: list[str] = []
        while True:
            try:
                partition = self.partitions[number % len(self.partitions)]
                offset = self.write(partition, value)
                while not (found := self.read(partition, offset)):
                    pass
                if found[0].value != value:
                    raise Refused(f"{found[0]} stands where {value!r} was written")
                break
            except (Closed, OSError, Refused, KlammError, IndexError) as fault:
                faults.append(f"{type(fault).__name__}: {fault}"[:200])
                if time.monotonic() - began > PATIENCE_S:
                    raise
                time.sleep(0.05)
                with suppress(Closed, OSError, Refused, KlammError, IndexError):
                    self.refresh()
        took_s = time.monotonic() - began
        return {
            "began": began,
            "took_s": took_s,
            "partition": partition,
            "offset": offset,
            "value": value.decode(),
            "faults": faults[:3],
        }

    def _ask(self, partition: int, key: int, version: int, request: Any) -> Any:
        if not self._leaders:
            self.refresh()
        address = self._leaders.get(partition)
        if address is None:
            raise Refused(f"{self._topic}-{partition} has no leader")
        if address not in self._open:
            self._open[address] = Raw(address, patience_s=ATTEMPT_S)
        return self._open[address].ask(key, version, request, client_id="healthy")


def _check(code: int) -> None:
    if code:
        raise Refused(f"error {code}")


def main(bootstrap: str, topic: str) -> None:
    user, number = User(bootstrap, topic), 0
    while True:
        sys.stdout.write(json.dumps(user.round_trip(number)) + "\n")
        sys.stdout.flush()
        number += 1
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
