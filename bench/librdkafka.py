"""librdkafka itself, without a Python object for every record.

confluent-kafka brings the library along; its C functions are called directly, a batch of records
at a time, as a program in C would. So what is measured is the broker and librdkafka, and not the
making of a million Python objects: through confluent-kafka a core moves about half as much.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from functools import cache
from importlib.metadata import files
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

_PRODUCER, _CONSUMER = 0, 1
_COPY = 0x2  # a flag of produce_batch: the payload stays the caller's
_ERROR_SIZE = 512
_BATCH = 2_000


class _Message(ctypes.Structure):
    """rd_kafka_message_t."""

    _fields_ = [
        ("err", c_int),
        ("rkt", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("len", c_size_t),
        ("key", c_void_p),
        ("key_len", c_size_t),
        ("offset", c_int64),
        ("_private", c_void_p),
    ]


def _load() -> Any:
    import confluent_kafka  # noqa: F401 - loads the library with what it needs

    found = [file for file in files("confluent-kafka") or () if file.name.startswith("librdkafka-")]
    assert found, "confluent-kafka was installed without its own librdkafka"
    library = ctypes.CDLL(str(Path(str(found[0].locate()))))
    for name, result, arguments in (
        ("conf_new", c_void_p, []),
        ("conf_set", c_int, [c_void_p, c_char_p, c_char_p, c_char_p, c_size_t]),
        ("new", c_void_p, [c_int, c_void_p, c_char_p, c_size_t]),
        ("destroy", None, [c_void_p]),
        ("topic_new", c_void_p, [c_void_p, c_char_p, c_void_p]),
        ("topic_destroy", None, [c_void_p]),
        ("produce_batch", c_int, [c_void_p, c_int32, c_int, POINTER(_Message), c_int]),
        ("poll", c_int, [c_void_p, c_int]),
        ("flush", c_int, [c_void_p, c_int]),
        ("outq_len", c_int, [c_void_p]),
        ("queue_new", c_void_p, [c_void_p]),
        ("queue_destroy", None, [c_void_p]),
        ("consume_start_queue", c_int, [c_void_p, c_int32, c_int64, c_void_p]),
        ("consume_stop", c_int, [c_void_p, c_int32]),
        ("consume_batch_queue", c_int64, [c_void_p, c_int, POINTER(c_void_p), c_size_t]),
        ("message_destroy", None, [c_void_p]),
    ):
        function = getattr(library, f"rd_kafka_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class _Client:
    """A handle and a topic."""

    def __init__(self, kind: int, settings: Mapping[str, object], topic: str) -> None:
        self.library = _load()
        conf = self.library.rd_kafka_conf_new()
        error = ctypes.create_string_buffer(_ERROR_SIZE)
        for name, value in settings.items():
            text = str(value).encode()
            fault = self.library.rd_kafka_conf_set(conf, name.encode(), text, error, _ERROR_SIZE)
            assert fault == 0, error.value.decode()
        self.handle = self.library.rd_kafka_new(kind, conf, error, _ERROR_SIZE)
        assert self.handle, error.value.decode()
        self.topic = self.library.rd_kafka_topic_new(self.handle, topic.encode(), None)
        assert self.topic, "no topic"

    def close(self) -> None:
        self.library.rd_kafka_topic_destroy(self.topic)
        self.library.rd_kafka_destroy(self.handle)


def produce(
    settings: Mapping[str, object], topic: str, partitions: int, *, count: int, size: int
) -> None:
    """Produce so many records of this size, and return when all are acknowledged."""
    client = _Client(_PRODUCER, settings, topic)
    library = client.library
    payload = ctypes.create_string_buffer(b"x" * size, size)
    batch = (_Message * _BATCH)()
    for message in batch:
        message.payload, message.len = ctypes.addressof(payload), size
    sent = turn = 0
    while sent < count:
        wanted = min(_BATCH, count - sent)
        # The queue is bounded: this leaves room for a batch, so that none is refused.
        while library.rd_kafka_outq_len(client.handle) * size > 64_000_000:
            library.rd_kafka_poll(client.handle, 1)
            time.sleep(0.001)
        queued = library.rd_kafka_produce_batch(
            client.topic, turn % partitions, _COPY, batch, wanted
        )
        assert queued == wanted, f"{wanted - queued} records were refused"
        sent, turn = sent + wanted, turn + 1
    assert library.rd_kafka_flush(client.handle, 300_000) == 0, "records were not delivered"
    client.close()


@cache
def destroyer() -> Callable[[npt.NDArray[np.uintp], int], None]:
    """Gives the first so many messages back, in a compiled loop.

    librdkafka takes messages back one by one, and a million calls from Python would cost more than
    reading the records. Compiling takes a moment: call it once before the clock runs.
    """
    address = ctypes.cast(_load().rd_kafka_message_destroy, c_void_p).value
    give_back = ctypes.CFUNCTYPE(None, c_size_t)(address)

    def destroy(messages: npt.NDArray[np.uintp], count: int) -> None:
        for at in range(count):
            give_back(messages[at])

    compiled: Callable[[npt.NDArray[np.uintp], int], None] = numba.njit(destroy)
    compiled(np.zeros(1, dtype=np.uintp), 0)
    return compiled


def consume(settings: Mapping[str, object], topic: str, partitions: int, *, count: int) -> None:
    """Read so many records from the beginning."""
    client = _Client(_CONSUMER, settings, topic)
    library = client.library
    queue = library.rd_kafka_queue_new(client.handle)
    for at in range(partitions):
        assert library.rd_kafka_consume_start_queue(client.topic, at, 0, queue) == 0
    batch = np.zeros(_BATCH, dtype=np.uintp)
    room = batch.ctypes.data_as(POINTER(c_void_p))
    destroy = destroyer()
    seen = 0
    while seen < count:
        got = library.rd_kafka_consume_batch_queue(queue, 10_000, room, _BATCH)
        assert got > 0, f"nothing more after {seen} of {count}"
        # An error comes as a message of its own. One look a batch is enough to see that it works.
        last = _Message.from_address(int(batch[got - 1]))
        assert not last.err, f"librdkafka says {last.err}"
        destroy(batch, got)
        seen += got
    for at in range(partitions):
        library.rd_kafka_consume_stop(client.topic, at)
    library.rd_kafka_queue_destroy(queue)
    client.close()
