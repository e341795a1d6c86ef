"""A writer that is killed: whatever it had flushed is there, whatever is there is right."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from klamm.log.directory import LogDirectory
from klamm.log.settings import LogSettings
from klamm.model.names import TopicPartition
from unit.log.helpers import records

PARTITION = TopicPartition("orders", 0)
CLUSTER = "c" * 22

WRITER = """
import sys
from klamm.log.directory import LogDirectory
from klamm.log.settings import LogSettings
from klamm.model.names import TopicPartition
from klamm.protocol.batch import Record, encode_batch

settings = LogSettings(segment_bytes=4000, index_interval_bytes=300)
directory = LogDirectory.open(sys.argv[1], 0, "c" * 22, settings_for=lambda topic: settings)
log = directory.create(TopicPartition("orders", 0), None, settings)
for number in range(1_000_000):
    sequence = log.log_end_offset
    data = encode_batch(
        [Record(0, 1_700_000_000_000 + sequence, None, b"%d" % sequence)],
        producer_id=1, producer_epoch=0, base_sequence=sequence,
    )
    outcome = log.append_at_once(
        memoryview(bytearray(data)), leader_epoch=log.log_end_offset // 50, now_ms=0
    )
    if number % 7 == 0:
        log.flush()
        if number % 14 == 0:
            directory.checkpoint()
        print(log.log_end_offset, flush=True)
"""


@pytest.mark.parametrize("lines", [1, 40, 90])
def test_kill_9_loses_nothing_that_was_flushed(tmp_path: Path, lines: int) -> None:
    promised = 0
    for _ in range(2):  # the second life continues the first one's log
        promised = _write_and_kill(tmp_path, lines)
        promised = _check(tmp_path, promised)


def _write_and_kill(path: Path, lines: int) -> int:
    """Let a writer run until it has said so many lines; what it said last."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process, process.stdout:
        said = [int(process.stdout.readline()) for _ in range(lines)]
        os.kill(process.pid, signal.SIGKILL)
        rest = [int(line) for line in process.stdout if line.endswith("\n")]
    return max(said + rest)


def _check(path: Path, promised: int) -> int:
    settings = LogSettings(segment_bytes=4000, index_interval_bytes=300)
    directory = LogDirectory.open(path, 0, CLUSTER, settings_for=lambda topic: settings)
    log = directory.get(PARTITION)
    assert log is not None
    assert log.log_end_offset >= promised
    found = records(log)
    assert [record.offset for record in found] == list(range(log.log_end_offset))
    assert [record.value for record in found] == [b"%d" % n for n in range(log.log_end_offset)]
    assert log.producers.by_id[1].last_sequence == log.log_end_offset - 1
    assert log.epochs.latest == (log.log_end_offset - 1) // 50
    end = log.log_end_offset
    directory.close(clean=False)
    return end
