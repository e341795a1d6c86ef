"""What the machine asks for the memory that records are written to.

A log is written to the page cache. On a virtual machine a page that nobody has used for a while is
not there: the host has to find it first, and the writer pays for that. Pages that a deleted file
left a moment ago are there. So the same write costs more in one round than in the next, whoever
writes; this tells how much.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Final

from measure import Case, Figures

_PIECE: Final = 1_000_000
_PIECES: Final = 250  # a quarter of a GB at a time
_STRETCHES: Final = 10


def new_pages() -> Figures:
    """Processor seconds to write a GB: over pages in use, and to new ones as more are needed."""
    data = os.urandom(_PIECE)
    with tempfile.TemporaryDirectory(prefix="klamm-bench-pages-") as place:
        fd = os.open(Path(place, "log"), os.O_RDWR | os.O_CREAT)
        try:
            taken = [_write(fd, data, at) for at in range(_STRETCHES)]
            again = _write(fd, data, 0)
        finally:
            os.close(fd)
    return {
        "over_pages_in_use_s_per_gb": again,
        "new_pages_least_s_per_gb": min(taken),
        "new_pages_most_s_per_gb": max(taken),
        "new_pages_s_per_gb": sum(taken) / len(taken),
    }


def _write(fd: int, data: bytes, stretch: int) -> float:
    begun = time.process_time()
    for at in range(_PIECES):
        os.pwrite(fd, data, (stretch * _PIECES + at) * _PIECE)
    return (time.process_time() - begun) / (_PIECES * _PIECE / 1e9)


CASES = (Case("new-pages", "writing to the page cache, 2.5 GB of it", new_pages),)
