"""Files written behind their maker's back."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest

from klamm.pipelines import behind
from klamm.pipelines.behind import FileBehind


@pytest.mark.parametrize("limit", [1, 10_000, 32 << 20])
def test_the_file_holds_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(behind, "_WAITING_BYTES", limit)
    monkeypatch.setattr(behind, "_SYNC_BYTES", limit)
    pieces = [bytes([n]) * (n * 100) for n in range(100)]
    with FileBehind(tmp_path / "f") as out:
        for piece in pieces:
            assert out.write(piece) == len(piece)
        found = out.finish()
        assert (out.size, out.closed) == (out.tell(), False)
    whole = b"".join(pieces)
    assert (tmp_path / "f").read_bytes() == whole
    assert found == hashlib.sha256(whole).hexdigest()
    assert out.size == len(whole)
    assert out.closed


def test_a_buffer_may_be_used_again_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"  # takes 64 KB, and the rest when somebody reads
    os.mkfifo(pipe)
    buffer = bytearray(b"a" * 200_000)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with open(reading, "rb", buffering=0) as reader, FileBehind(pipe) as out:
        os.set_blocking(reading, True)
        out.write(memoryview(buffer))
        buffer[:] = b"b" * len(buffer)
        found = b""
        while len(found) < len(buffer):
            found += reader.read(len(buffer))
    assert found == b"a" * len(buffer)


def test_a_full_disk_comes_up_at_the_end_at_the_latest() -> None:
    with FileBehind(Path("/dev/full")) as out:
        out.write(b"no room")
        with pytest.raises(OSError, match="No space") as found:
            out.finish()
    assert found.value.errno == errno.ENOSPC


def test_a_full_disk_stops_whoever_writes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(behind, "_WAITING_BYTES", 0)
    with FileBehind(Path("/dev/full")) as out, pytest.raises(OSError, match="No space"):
        out.write(b"no room")
