"""The JVM's standard error, without its warning about a module that Spark itself asks for.

Spark starts every JVM with an incubator module, and the JVM warns of it in its first line. A reader
can do nothing about it. Everything else that the JVM says is passed on as it comes.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_WARNING: Final = re.compile(rb"WARNING: Using incubator modules:[^\n]*\n")
_STDERR: Final = 2
_CHUNK_BYTES: Final = 65536


@contextmanager
def without_incubator_warning() -> Iterator[None]:
    """Processes started inside have a standard error that is passed on, but for the warning."""
    sys.stderr.flush()
    kept = os.dup(_STDERR)
    reading, writing = os.pipe()
    os.dup2(writing, _STDERR)
    os.close(writing)
    passing = threading.Thread(
        target=_pass_on, args=(reading, os.dup(kept)), name="jvm-stderr", daemon=True
    )
    passing.start()
    try:
        yield
    except BaseException:
        _put_back(kept)
        passing.join(1)  # what was said about the failure comes before what we say
        raise
    _put_back(kept)


def _put_back(kept: int) -> None:
    sys.stderr.flush()
    os.dup2(kept, _STDERR)
    os.close(kept)


def _pass_on(reading: int, to: int) -> None:
    """Copy until nobody holds the other end any more."""
    try:
        while chunk := os.read(reading, _CHUNK_BYTES):
            os.write(to, _WARNING.sub(b"", chunk))
    except OSError:
        pass  # our own standard error is gone, and with it whoever listened
    finally:
        os.close(reading)
        os.close(to)
