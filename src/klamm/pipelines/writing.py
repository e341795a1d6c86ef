"""Small files that are there whole or not at all, and what is said when a disk refuses them."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from klamm.model.errors import KlammError


def write_whole(path: Path, text: str) -> None:
    """Writes a small file so that a reader finds all of it or nothing."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("w") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        draft.rename(path)
    except OSError as fault:
        with suppress(OSError):
            draft.unlink()
        raise KlammError(disk_fault(fault, path)) from None


def disk_fault(fault: OSError, target: Path) -> str:
    """Why something was not written, in a sentence."""
    if fault.errno == errno.ENOSPC:
        return f"the disk is full: {target} was not written; free some room and run again"
    return f"cannot write {target}: {fault.strerror or fault}"
