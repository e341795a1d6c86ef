"""The archives below a directory: which there are, and what broken-off runs have left among them.

Only files with names that klamm gives are ever removed, and none while somebody writes there: a run
and a restore hold a lock on their archive, which the system lets go however they end.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NoReturn

from klamm.model.errors import KlammError, UsageError
from klamm.pipelines.archive.layout import MANIFEST, Manifest, read_manifest
from klamm.pipelines.places.place import Taken, version_of
from klamm.pipelines.places.remote import Place, RemotePath, place_of, relative

_LOCK: Final = ".lock"
_TURN: Final = ".turn"  # held while one manifest takes the place of another
_OLD_S: Final = 24 * 3600.0  # a run that takes longer than this is not thought of
_ATTEMPT: Final = r"[0-9a-f]{8}"
_DATA: Final = re.compile(rf"data/partition=\d+/\d{{18,}}-\d{{18,}}\.{_ATTEMPT}\.parquet")
_BESIDE: Final = re.compile(rf"(topic\.{_ATTEMPT}\.json|groups\.{_ATTEMPT}\.parquet)")
_DRAFT: Final = re.compile(r"(.*/)?\.[^/]+\.draft")


def find_archives(root: str | Place) -> tuple[list[Manifest], list[str]]:
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


def find_archive(root: str | Place, topic: str | None = None) -> Manifest:
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


def _directories(root: str | Place) -> Iterator[tuple[Place, list[str]]]:
    """A directory and all below it, with the names of their files.

    One that cannot be looked into is an error, not empty.
    """
    place = place_of(root)
    if isinstance(place, RemotePath):
        yield from _prefixes(place)
        return

    def refuse(fault: OSError) -> NoReturn:
        match fault:
            case FileNotFoundError():
                raise UsageError(f"there is no directory {fault.filename}")
            case NotADirectoryError():
                raise UsageError(f"{fault.filename} is a file, not a directory")
        raise UsageError(f"cannot read {fault.filename}: {fault.strerror}")

    for directory, below, names in os.walk(str(root), onerror=refuse):
        below.sort()
        yield Path(directory), names


def _prefixes(place: RemotePath) -> Iterator[tuple[Place, list[str]]]:
    """The same of a store, which has names and no directories."""
    names: dict[RemotePath, list[str]] = {}
    try:
        for path in place.files():
            names.setdefault(path.parent, []).append(path.name)
    except OSError as fault:
        raise UsageError(f"cannot read {place}: {fault}") from None
    if not names:
        raise UsageError(f"there is nothing at {place}")
    yield from sorted(names.items())


def publish(manifest: Manifest) -> Place:
    """Puts a manifest in its place, unless that would take records away.

    Of two runs at once the slower one may have begun earlier and know less.
    """
    path = manifest.path
    if isinstance(path, RemotePath):
        version = version_of(path / MANIFEST)
        _refuse_less(manifest)
        try:
            return manifest.write(instead_of=version)
        except Taken:
            raise KlammError(f"another run has archived to {path} meanwhile: run again") from None
    with (path / _TURN).open("ab") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        _refuse_less(manifest)
        return manifest.write()


def _refuse_less(manifest: Manifest) -> None:
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


@contextmanager
def being_written(directory: Place, *, alone: bool = False) -> Iterator[None]:
    """Holds an archive's lock: several runs may write to it, but none while it is cleaned.

    A store has no locks: what is cleaned there is old.
    """
    if isinstance(directory, RemotePath):
        yield
        return
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


def vacuum(root: str | Place) -> tuple[int, int]:
    """Removes what no manifest names: how many files, how many bytes."""
    count = size = 0
    for directory, names in list(_directories(root)):
        if not {MANIFEST, _LOCK} & set(names):
            continue
        with being_written(directory, alone=True):
            for path in list(orphans(directory)):
                found = path.lstat()  # a link goes, not what it leads to
                if isinstance(path, RemotePath) and time.time() - found.st_mtime < _OLD_S:
                    continue
                size += found.st_size
                _remove(path)
                count += 1
    return count, size


def _remove(path: Place) -> None:
    try:
        path.unlink()
    except OSError as fault:
        raise UsageError(f"cannot remove {path}: {fault.strerror}") from None


def orphans(directory: Place) -> Iterator[Place]:
    """The files that interrupted runs left in one archive: drafts, and those no manifest names."""
    named: set[str] = set()
    if (directory / MANIFEST).exists():
        manifest = read_manifest(directory)
        named = {f.path for f in manifest.files} | {manifest.settings.path, manifest.groups.path}
    for path in _everything(directory):
        name = relative(path, directory)
        is_ours = _DATA.fullmatch(name) or _BESIDE.fullmatch(name)
        if _DRAFT.fullmatch(name) or (is_ours and name not in named):
            yield path


def _everything(directory: Place) -> Iterator[Place]:
    if isinstance(directory, RemotePath):
        yield from directory.files()
    else:
        yield from sorted(directory.rglob("*"))
