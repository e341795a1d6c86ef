"""What the log room costs: appending, reading, and coming back with ten thousand logs."""

from __future__ import annotations

import struct
import time
import tracemalloc
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from measure import Case, Figures, Measure

from klamm.log.directory import LogDirectory
from klamm.log.paper import NewLog
from klamm.log.settings import LogSettings
from klamm.log.writing.append import Appended
from klamm.model.names import TopicPartition
from klamm.protocol.batch import Record, encode_batch

LOGS = 10_000
CLUSTER = "b" * 22
SETTINGS = LogSettings(segment_bytes=256 << 20)
NOW = 1_700_000_000_000
BEST_OF = 7
_pack_offset = struct.Struct(">q").pack_into


@contextmanager
def _directory() -> Iterator[LogDirectory]:
    with TemporaryDirectory(prefix="klamm-bench-log-") as path:
        directory = _open(path)
        try:
            yield directory
        finally:
            directory.close(clean=False)


def _open(path: str) -> LogDirectory:
    return LogDirectory.open(path, 0, CLUSTER, settings_for=lambda topic: SETTINGS)


def _batch(size: int, **producer: int) -> memoryview:
    """One batch of about this size."""
    empty = len(encode_batch([Record(0, NOW, None, b"")], **producer))
    data = encode_batch([Record(0, NOW, None, b"x" * (size - empty))], **producer)
    return memoryview(bytearray(data))


def _microseconds(count: int, work: Callable[[], object]) -> float:
    """Processor time of one repetition, in the best of several rounds."""
    best = float("inf")
    for _ in range(BEST_OF):
        started = time.process_time()
        for _ in range(count):
            work()
        best = min(best, (time.process_time() - started) / count)
    return best * 1e6


def _append(size: int, count: int) -> float:
    with _directory() as directory:
        log = directory.create(TopicPartition("bench", 0), uuid.uuid4(), SETTINGS)
        data = _batch(size)
        unstamped = bytes(8)

        def once() -> None:
            data[:8] = unstamped
            log.append_at_once(data, leader_epoch=0, now_ms=NOW)

        return _microseconds(count, once)


def _append_idempotent() -> float:
    with _directory() as directory:
        log = directory.create(TopicPartition("bench", 0), uuid.uuid4(), SETTINGS)
        total = 2000 * BEST_OF
        batches = iter(
            [_batch(120, producer_id=1, producer_epoch=0, base_sequence=n) for n in range(total)]
        )

        def once() -> None:
            outcome = log.append_at_once(next(batches), leader_epoch=0, now_ms=NOW)
            assert isinstance(outcome, Appended)

        return _microseconds(2000, once)


def _follow(size: int) -> float:
    """A megabyte of batches of one size, as a follower gets it from its leader."""
    with _directory() as directory:
        log = directory.create(TopicPartition("bench", 0), uuid.uuid4(), SETTINGS)
        plain = _batch(size)
        size = len(plain)
        count = 1_000_000 // size
        data = memoryview(bytearray(plain) * count)

        def once() -> None:
            for number in range(count):
                _pack_offset(data, number * size, log.log_end_offset + number)
            started = time.process_time()
            log.append_as_follower(data)
            spent.append(time.process_time() - started)

        spent: list[float] = []
        _microseconds(3, once)
        return min(spent) * 1e6


def _read(*, at_tail: bool) -> float:
    with _directory() as directory:
        log = directory.create(TopicPartition("bench", 0), uuid.uuid4(), SETTINGS)
        for _ in range(2000):
            log.append_at_once(_batch(1000), leader_epoch=0, now_ms=NOW)
        offset = log.log_end_offset - 1 if at_tail else log.log_end_offset // 3
        return _microseconds(2000, lambda: log.read(offset, max_bytes=100_000))


def _create_many() -> float:
    with _directory() as directory:
        started = time.perf_counter()
        for number in range(LOGS):
            directory.create(TopicPartition("bench", number), uuid.uuid4(), SETTINGS)
        return time.perf_counter() - started


def _load_many(*, clean: bool) -> float:
    data = bytes(_batch(120))
    with TemporaryDirectory(prefix="klamm-bench-log-") as path:
        directory = _open(path)
        for number in range(LOGS):
            log = directory.create(TopicPartition("bench", number), uuid.uuid4(), SETTINGS)
            log.append_at_once(memoryview(bytearray(data)), leader_epoch=0, now_ms=NOW)
        directory.close(clean=clean)
        started = time.perf_counter()
        directory = _open(path)
        took = time.perf_counter() - started
        directory.close(clean=False)
        return took


def on_paper() -> Figures:
    """Logs without a record, each: processor time to make, load and delete one, and its memory."""
    with TemporaryDirectory(prefix="klamm-bench-log-") as path:
        directory, topic_id = _open(path), uuid.uuid4()
        named = [TopicPartition("bench", number) for number in range(LOGS)]
        wanted = [NewLog(partition, topic_id, SETTINGS) for partition in named]
        tracemalloc.start()
        directory.put_on_paper(wanted)
        memory = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        directory.schedule_delete(named)
        begun = time.process_time()
        directory.put_on_paper(wanted)
        directory.sync_new(directory.take_new())
        made = time.process_time()
        directory.close(clean=False)
        closed = time.process_time()
        directory = _open(path)
        loaded = time.process_time()
        directory.schedule_delete(named)
        deleted = time.process_time()
        directory.close(clean=False)
    return {
        "make_us": (made - begun) / LOGS * 1e6,
        "load_us": (loaded - closed) / LOGS * 1e6,
        "delete_us": (deleted - loaded) / LOGS * 1e6,
        "bytes": memory / LOGS,
    }


CASES = (
    Case("paper-logs", "10,000 logs without a record, each", on_paper, limits={"bytes": 1_000.0}),
)
MEASURES = (
    Measure("append-100", "append a batch of 120 bytes", "us", lambda: _append(120, 5000), 15),
    Measure("append-idempotent", "the same from an idempotent producer", "us", _append_idempotent),
    Measure("append-16k", "append a batch of 16 KB", "us", lambda: _append(16_384, 2000)),
    Measure("append-1m", "append a batch of 1 MB", "us", lambda: _append(1_000_000, 30)),
    Measure("follow-200", "1 MB of small batches as a follower", "us", lambda: _follow(200)),
    Measure("follow-16k", "1 MB of 16 KB batches as a follower", "us", lambda: _follow(16_384)),
    Measure("read-tail", "find the newest batch", "us", lambda: _read(at_tail=True)),
    Measure("read-behind", "find an offset through the index", "us", lambda: _read(at_tail=False)),
    Measure("create-10000", "create 10,000 logs", "s", _create_many),
    Measure(
        "load-clean", "load 10,000 logs after a clean stop", "s", lambda: _load_many(clean=True)
    ),
    Measure("load-crashed", "load 10,000 logs after a crash", "s", lambda: _load_many(clean=False)),
)
