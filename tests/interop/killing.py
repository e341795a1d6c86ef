"""Producers under load while leaders are killed, and the notes for the history checker."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import confluent_kafka

from history import Acked
from klamm import Cluster


class Load(threading.Thread):
    """One producer with acks=all, mostly idempotent, that notes what it was promised."""

    def __init__(
        self,
        servers: str,
        topic: str,
        partitions: int,
        name: str,
        *,
        pause_s: float = 0.01,
        idempotent: bool = True,
        hear: logging.Logger | None = None,  # of every answer
    ) -> None:
        super().__init__(daemon=True, name=name)
        self._pause_s = pause_s
        self._topic = topic
        self._partitions = partitions
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": idempotent,
                "acks": "all",
                "linger.ms": 2,
                "batch.num.messages": 200,
                "message.timeout.ms": 120_000,
                "retry.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "topic.metadata.refresh.fast.interval.ms": 50,
                **({"debug": "msg,eos"} if hear is not None else {}),
            },
            **({"logger": hear} if hear is not None else {}),
        )
        self._progress = threading.Condition()
        self._halt = threading.Event()
        self.acked: list[Acked] = []
        self.sent = 0
        self.unheard = 0  # how often it was told that there is no such topic
        self.times: list[float] = []  # when each was acknowledged
        self.failed: list[str] = []

    def run(self) -> None:
        sequence = 0
        while not self._halt.is_set():
            value = f"{self.name}-{sequence}".encode()
            partition = sequence % self._partitions
            try:
                self._producer.produce(
                    self._topic,
                    value,
                    partition=partition,
                    on_delivery=self._note(sequence, value),
                )
            except BufferError:
                self._producer.poll(0.05)
                continue
            except confluent_kafka.KafkaException as fault:
                # A broker that has just started may not have heard of the topic: the client gives
                # up at once, a user tries again.
                if fault.args[0].code() != confluent_kafka.KafkaError._UNKNOWN_TOPIC:
                    raise
                self.unheard += 1
                self._halt.wait(0.1)
                continue
            sequence = self.sent = sequence + 1
            self._producer.poll(0)
            if sequence % 20 == 0:
                self._halt.wait(self._pause_s)  # a steady stream, not a flood
        self._producer.flush(120)

    def _note(self, sequence: int, value: bytes) -> Callable[..., None]:
        def delivered(error: object, message: confluent_kafka.Message) -> None:
            with self._progress:
                if error is not None:
                    self.failed.append(f"{value!r}: {error}")
                else:
                    at = (self._topic, message.partition() or 0)
                    offset = message.offset()
                    assert offset is not None
                    self.acked.append(Acked(self.name, sequence, at, offset, value))
                    self.times.append(time.monotonic())
                self._progress.notify_all()

        return delivered

    def wait_for_more(self, count: int, timeout_s: float = 60) -> None:
        """Wait until this many more records were acknowledged."""
        with self._progress:
            wanted = len(self.acked) + count
            done = self._progress.wait_for(lambda: len(self.acked) >= wanted, timeout_s)
            assert done, f"{self.name}: {wanted - len(self.acked)} of {count} were not acknowledged"

    def wait_for_one_after(self, sequence: int, timeout_s: float = 60) -> None:
        """Wait until a record that was sent behind this one was acknowledged."""
        with self._progress:
            done = self._progress.wait_for(
                lambda: any(record.sequence > sequence for record in self.acked[-100:]), timeout_s
            )
            assert done, f"{self.name}: nothing behind {sequence} was acknowledged"

    def halt(self) -> None:
        self._halt.set()
        self.join(150)
        assert not self.is_alive(), f"{self.name} does not end"


def kill_leaders(cluster: Cluster, topic: str, partitions: int, times: int, load: Load) -> None:
    """Kill the leader of one partition after the other; each comes back and catches up."""
    for turn in range(times):
        cluster.wait_for_isr(topic, size=3)
        leader = cluster.wait_for_leader(topic, turn % partitions)
        load.wait_for_more(20)
        cluster.kill_broker(leader)
        load.wait_for_more(20)
        cluster.start_broker(leader)
    cluster.wait_for_isr(topic, size=3)
