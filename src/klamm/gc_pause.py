"""Pauses the garbage collector during large pieces of work.

Loading a store, or a failover, makes hundreds of thousands of objects and drops few. Python's
collector runs by the number of objects made, so it would look at everything this process holds
again and again, just then, and find nothing: with ten thousand partitions a third of the time until
all are led. It is switched off for as long as such work lasts, and makes up for it afterwards.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_lock: Final = threading.Lock()  # several clusters of one process are in several threads
_working = 0
_was_enabled = False


@contextmanager
def paused() -> Iterator[None]:
    """Pauses collections until the last of those that asked for it is done."""
    global _working, _was_enabled
    with _lock:
        if not _working:
            _was_enabled = gc.isenabled()
            gc.disable()
        _working += 1
    try:
        yield
    finally:
        with _lock:
            _working -= 1
            if not _working and _was_enabled:
                gc.enable()
