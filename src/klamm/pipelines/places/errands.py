"""Directories of this machine that stand for a place in a store, while a job works on them.

For jobs that write or read many small files in their own way, such as Spark's: they work here, and
what they made is sent when they are done, whatever they found.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from klamm.model.errors import KlammError, UsageError
from klamm.pipelines.places.place import check_writable
from klamm.pipelines.places.remote import Place, RemotePath, place_of

_AWAY: Final[dict[Path, RemotePath]] = {}


@contextmanager
def sent_to(to: str | Path) -> Iterator[Path]:
    """A directory whose files are in a place when the block is over; a directory is its own."""
    place = place_of(to)
    if not isinstance(place, RemotePath):
        yield Path(to)
        return
    check_writable(place)
    with TemporaryDirectory(prefix="klamm-") as text:
        here = Path(text)
        _AWAY[here] = place
        failed = True
        try:
            yield here
            failed = False
        finally:
            del _AWAY[here]
            if not failed or any(here.iterdir()):
                _send(here, place)


def _send(here: Path, place: RemotePath) -> None:
    try:
        for path in sorted(here.rglob("*")):
            if path.is_file():
                (place / path.relative_to(here)).upload(path)
    except OSError as fault:
        raise KlammError(f"cannot write to {place}: {fault}") from None


def told(path: Path) -> Place:
    """The name that a file has for everybody else."""
    for here, place in _AWAY.items():
        if path.is_relative_to(here):
            return place / path.relative_to(here)
    return path


@contextmanager
def brought_from(source: str | Path) -> Iterator[Path]:
    """A directory with the files of a place; a directory is its own."""
    place = place_of(source)
    if not isinstance(place, RemotePath):
        yield Path(source)
        return
    with TemporaryDirectory(prefix="klamm-") as text:
        count = 0
        try:
            for path in place.files():
                target = Path(text) / path.relative_to(place)
                target.parent.mkdir(parents=True, exist_ok=True)
                with path.native() as opened, target.open("wb") as file:
                    while chunk := opened.read(8 << 20):
                        file.write(chunk)
                count += 1
        except OSError as fault:
            raise UsageError(f"cannot read {place}: {fault}") from None
        if not count:
            raise UsageError(f"there is nothing at {place}")
        yield Path(text)
