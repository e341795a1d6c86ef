"""Batches with their offsets, to the leader of a partition that is imported. Blocking.

One request is under way while the next is put together. Whatever goes wrong ends the connection:
whoever imports asks the leader there is then where its log ends, and goes on there.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from klamm.client.blocking.lookup import Lookup
from klamm.client.blocking.wire import Wire
from klamm.client.errors import check
from klamm.client.settings import ConnectionOptions
from klamm.model.names import TopicPartition
from klamm.protocol import private
from klamm.protocol.private import PrivateKey

_SIZE: Final = struct.Struct(">I")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportTarget:
    """The partition that batches are for."""

    connection: ConnectionOptions
    place: TopicPartition
    topic_id: str
    log_start: int


class ImportLink:
    """A connection to the leader of one partition, for as long as it leads and answers."""

    def __init__(self, target: ImportTarget) -> None:
        self._target = target
        topic, partition = target.place
        view = Lookup(target.connection).view([topic])
        self._wire = Wire.open(view.leader(target.place).address, target.connection)
        head = json.dumps(
            {
                "topic": topic,
                "topic_id": target.topic_id,
                "partition": partition,
                "log_start": target.log_start,
                "timeout_ms": max(target.connection.request_timeout_ms - 1000, 1000),
            }
        ).encode()
        self._head = _SIZE.pack(len(head)) + head
        self._under_way = 0
        self.log_end = -1  # as far as the leader has confirmed
        self.log_start = -1

    def __enter__(self) -> ImportLink:
        return self

    def __exit__(self, *_: Any) -> None:
        self._wire.close()

    def ask(self) -> int:
        """The offset at which the leader's log ends, when all replicas in sync have it."""
        self.send(())
        self.flush()
        return self.log_end

    def send(self, batches: Sequence[bytes]) -> None:
        """Sends batches, when the ones before are confirmed."""
        self.flush()
        self._wire.post(PrivateKey.IMPORT_RECORDS, private.VERSION, self._head, *batches)
        self._under_way += 1

    def flush(self) -> None:
        """Waits until everything that was sent is confirmed."""
        while self._under_way:
            answer = private.decode(self._wire.take())
            self._under_way -= 1
            what = f"importing {self._target.place}"
            check(answer["error_code"], what, answer.get("error_message"))
            self.log_start, self.log_end = answer["log_start"], answer["log_end"]
