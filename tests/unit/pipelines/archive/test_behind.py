"""Files that are followed while they grow."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from klamm.pipelines.archive import behind
from klamm.pipelines.archive.behind import Follower


@pytest.mark.parametrize("limit", [1, 10_000, 32 << 20])
def test_the_sum_is_that_of_the_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(behind, "_READ_BYTES", max(limit, 100))
    monkeypatch.setattr(behind, "_SYNC_BYTES", limit)
    pieces = [bytes([n]) * (n * 100) for n in range(100)]
    with (tmp_path / "f").open("wb", buffering=0) as out, Follower(tmp_path / "f") as follower:
        for piece in pieces:
            out.write(piece)
            follower.reached(out.tell())
        out.write(b"the end")
        found = follower.finish(out.tell())
    assert found == hashlib.sha256(b"".join(pieces) + b"the end").hexdigest()


def test_only_what_is_said_to_be_there_is_taken(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"whole and not yet")
    with Follower(tmp_path / "f") as follower:
        assert follower.finish(5) == hashlib.sha256(b"whole").hexdigest()


def test_a_file_that_is_shorter_than_was_said_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"short")
    with Follower(tmp_path / "f") as follower:
        follower.reached(3)
        follower.reached(6)
        with pytest.raises(OSError, match="lost its end"):
            follower.finish(6)
