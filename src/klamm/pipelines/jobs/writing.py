"""Small files that are there whole or not at all, and what is said when a disk refuses them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from klamm.model.errors import KlammError
from klamm.pipelines.places.remote import Place, RemotePath, StoreFault


@contextmanager
def drafted(path: Place) -> Iterator[Path]:
    """A place to write to, which gets its name when all of it is on the disk, or in the store."""
    if isinstance(path, RemotePath):
        with TemporaryDirectory(prefix="klamm-") as here:
            yield (draft := Path(here) / path.name)
            try:
                path.upload(draft)
            except OSError as fault:
                raise KlammError(disk_fault(fault, path)) from None
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield draft
        with draft.open("rb+") as written:
            os.fsync(written.fileno())
        draft.rename(path)
    except OSError as fault:
        raise KlammError(disk_fault(fault, path)) from None
    finally:
        with suppress(OSError):
            draft.unlink()


def write_whole(path: Place, text: str) -> None:
    """Writes a small file so that a reader finds all of it or nothing."""
    with drafted(path) as draft:
        draft.write_text(text)


class StoreAway(KlammError):
    """A store did not do what it was asked: it may, when it is asked again."""


def not_written(fault: OSError, target: Place) -> KlammError:
    """The error to raise, by who refused: a disk, or a store."""
    why = disk_fault(fault, target)
    return StoreAway(why) if isinstance(fault, StoreFault) else KlammError(why)


def disk_fault(fault: OSError, target: Place) -> str:
    """The reason why something was not written, as a sentence."""
    if fault.errno == errno.ENOSPC:
        return f"the disk is full: {target} was not written; free some room and run again"
    # Arrow's errors have the number, and a text of their own.
    return f"cannot write {target}: {os.strerror(fault.errno) if fault.errno else fault}"
