"""The archives below a directory: which there are, and what broken-off runs have left among them.

Only files with names that klamm gives are ever removed, and none while somebody writes there: a run
and a restore hold a lock on their archive, which the system lets go however they end.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NoReturn

from klamm.model.errors import KlammError, UsageError
from klamm.pipelines.archive.layout import MANIFEST, Manifest, read_manifest, refuse_address

_LOCK: Final = ".lock"
_TURN: Final = ".turn"  # held while one manifest takes the place of another
_ATTEMPT: Final = r"[0-9a-f]{8}"
_DATA: Final = re.compile(rf"data/partition=\d+/\d{{18,}}-\d{{18,}}\.{_ATTEMPT}\.parquet")
_BESIDE: Final = re.compile(rf"(topic\.{_ATTEMPT}\.json|groups\.{_ATTEMPT}\.parquet)")
_DRAFT: Final = re.compile(r"(.*/)?\.[^/]+\.draft")


def find_archives(root: str | Path) -> tuple[list[Manifest], list[str]]:
    """Every archive at or below a directory, oldest first; and which cannot be read, in words."""
    found, faults = [], []
    for directory, names in _directories(root):
        if MANIFEST not in names:
            continue
        try:
            found.append(read_manifest(directory))
        except KlammError as fault:
            faults.append(str(fault))
    return sorted(found, key=lambda m: m.created_ms), faults


def find_archive(root: str | Path, topic: str | None = None) -> Manifest:
    """The one archive that a user means: the newest of a topic, or the only one there is."""
    found, faults = find_archives(root)
    if faults:
        # It may be the one that is meant; only its manifest could tell.
        raise KlammError("; ".join(faults))
    topics = sorted({m.topic for m in found})
    if topic is not None:
        found = [m for m in found if m.topic == topic]
    if not found and topics:
        raise UsageError(f"{root} holds no archive of {topic}, but of {', '.join(topics)}")
    if not found:
        raise UsageError(f"{root} holds no archive")
    if len({m.topic for m in found}) > 1:
        raise UsageError(f"{root} holds archives of {', '.join(topics)}: say which with --topic")
    return found[-1]


def _directories(root: str | Path) -> Iterator[tuple[Path, list[str]]]:
    """A directory and all below it, with the names of their files.

    One that cannot be looked into is an error, not empty.
    """
    refuse_address(root)

    def refuse(fault: OSError) -> NoReturn:
        match fault:
            case FileNotFoundError():
                raise UsageError(f"there is no directory {fault.filename}")
            case NotADirectoryError():
                raise UsageError(f"{fault.filename} is a file, not a directory")
        raise UsageError(f"cannot read {fault.filename}: {fault.strerror}")

    for directory, below, names in os.walk(root, onerror=refuse):
        below.sort()
        yield Path(directory), names


def publish(manifest: Manifest) -> Path:
    """Puts a manifest in its place, unless that would take records away.

    Of two runs at once the slower one may have begun earlier and know less.
    """
    with (manifest.path / _TURN).open("ab") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        try:
            ends = {p: entry.end for p, entry in read_manifest(manifest.path).partitions.items()}
        except KlammError:
            ends = {}
        for partition, end in ends.items():
            reached = manifest.partitions[partition].end if partition in manifest.partitions else 0
            if end > reached:
                raise KlammError(
                    f"{manifest.path} has partition {partition} up to offset {end} already, and "
                    f"this run only up to {reached}: it stays as it is"
                )
        return manifest.write()


@contextmanager
def being_written(directory: Path, *, alone: bool = False) -> Iterator[None]:
    """Holds an archive's lock: several runs may write to it, but none while it is cleaned."""
    with _lock_of(directory) as lock:
        try:
            fcntl.flock(lock, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except BlockingIOError:
            what = "is being written to" if alone else "is being cleaned"
            raise KlammError(f"{directory} {what}: try again when that is done") from None
        yield


def _lock_of(directory: Path) -> BinaryIO:
    try:
        return (directory / _LOCK).open("ab")
    except OSError as fault:
        raise UsageError(f"cannot write to {directory}: {fault.strerror}") from None


def vacuum(root: str | Path) -> tuple[int, int]:
    """Removes what no manifest names: how many files, how many bytes."""
    count = size = 0
    for directory, names in list(_directories(root)):
        if not {MANIFEST, _LOCK} & set(names):
            continue
        with being_written(directory, alone=True):
            for path in list(orphans(directory)):
                size += path.lstat().st_size  # a link goes, not what it leads to
                _remove(path)
                count += 1
    return count, size


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError as fault:
        raise UsageError(f"cannot remove {path}: {fault.strerror}") from None


def orphans(directory: Path) -> Iterator[Path]:
    """The files that interrupted runs left in one archive: drafts, and those no manifest names."""
    named: set[str] = set()
    if (directory / MANIFEST).exists():
        manifest = read_manifest(directory)
        named = {f.path for f in manifest.files} | {manifest.settings.path, manifest.groups.path}
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        is_ours = _DATA.fullmatch(name) or _BESIDE.fullmatch(name)
        if _DRAFT.fullmatch(name) or (is_ours and name not in named):
            yield path
