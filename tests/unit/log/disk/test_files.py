"""Open files, bounded."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from klamm.log.disk.files import (
    FilePool,
    fair_limit,
    make_directory,
    replace_file,
    replace_unsynced,
    tighten,
    write_file,
)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_no_more_than_the_limit_are_open(tmp_path: Path) -> None:
    pool = FilePool(limit=4)
    before = open_files()
    for number in range(20):
        pool.get(str(tmp_path / str(number)), create=True)
    assert len(pool) == 4
    assert open_files() == before + 4
    pool.clear()
    assert open_files() == before


def test_the_longest_unused_is_closed_first(tmp_path: Path) -> None:
    pool = FilePool(limit=2)
    first, second, third = (str(tmp_path / name) for name in "abc")
    kept = pool.get(first, create=True).fileno()
    pool.get(second, create=True)
    pool.get(first)
    pool.get(third, create=True)
    assert pool.get(first).fileno() == kept
    pool.clear()


def test_a_file_stays_open_for_whoever_holds_it(tmp_path: Path) -> None:
    pool = FilePool(limit=1)
    path = str(tmp_path / "a")
    handle = pool.get(path, create=True)
    os.pwrite(handle.fileno(), b"hello", 0)
    pool.get(str(tmp_path / "b"), create=True)
    os.unlink(path)
    assert os.pread(handle.fileno(), 5, 0) == b"hello"
    pool.clear()


def test_nothing_is_made_by_looking(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FilePool().get(str(tmp_path / "a"))


def test_a_process_short_of_descriptors_does_with_fewer(tmp_path: Path) -> None:
    pool = FilePool(limit=1000)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_files() + 10, hard))
    try:
        for number in range(100):
            pool.get(str(tmp_path / str(number)), create=True)
        assert len(pool) < 20
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        pool.clear()


@pytest.mark.parametrize(("allowed", "limit"), [(100, 32), (1024, 128), (4096, 512)])
def test_a_broker_takes_a_fair_part_of_the_descriptors(allowed: int, limit: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    try:
        assert fair_limit() == limit
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old and longer")
    replace_file(str(path), b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("replace", [replace_file, replace_unsynced])
def test_a_draft_does_not_follow_a_link(
    tmp_path: Path, replace: Callable[[str, bytes], None]
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "a.tmp").symlink_to(victim)
    replace(str(tmp_path / "a"), b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert victim.read_text() == "precious"
    assert not (tmp_path / "a.tmp").is_symlink()


def test_a_file_is_not_written_through_a_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "a").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        write_file(str(tmp_path / "a"), b"new")
    assert victim.read_text() == "precious"


def test_nobody_else_sees_what_is_made(tmp_path: Path) -> None:
    make_directory(str(tmp_path / "above" / "below"))
    replace_file(str(tmp_path / "above" / "a"), b"new")
    FilePool().get(str(tmp_path / "above" / "b"), create=True)
    assert modes(tmp_path) == {"above": 0o700, "above/below": 0o700} | dict.fromkeys(
        ["above/a", "above/b"], 0o600
    )


def test_a_stricter_umask_stays(tmp_path: Path) -> None:
    before = os.umask(0o277)
    try:
        replace_file(str(tmp_path / "a"), b"new")
    finally:
        os.umask(before)
    assert modes(tmp_path) == {"a": 0o400}


def test_what_everybody_shares_is_not_taken_from_them(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    assert not tighten(str(tmp_path))
    assert tmp_path.stat().st_mode & 0o7777 == 0o1777
    tmp_path.chmod(0o755)
    assert tighten(str(tmp_path))
    assert tmp_path.stat().st_mode & 0o7777 == 0o700


def modes(path: Path) -> dict[str, int]:
    return {
        str(found.relative_to(path)): found.stat().st_mode & 0o7777 for found in path.rglob("*")
    }
