"""Loads the library that `hatch_build.py` makes of `records.c`.

A library is used only when it was built from the `records.c` beside it: in a working copy the one
changes without the other. Whoever has none, or sets `KLAMM_NO_NATIVE`, checks records by hand, and
less of them (`klamm.log.writing.records`). `klamm doctor` and `klamm version` say which it is.
"""

from __future__ import annotations

import ctypes
import os
import zlib
from pathlib import Path
from typing import Final, NamedTuple

SOURCE: Final = Path(__file__).with_name("records.c")
# A name that Python does not take for a module of its own.
LIBRARY: Final = Path(__file__).with_name("klamm-records.so")
UNWANTED: Final = "KLAMM_NO_NATIVE"


class Unavailable(NamedTuple):
    """The reason why there is no library."""

    why: str


def load(library: Path = LIBRARY, source: Path = SOURCE) -> ctypes.PyDLL | Unavailable:
    """The library, if it fits the source; its functions are called with the interpreter's lock."""
    if os.environ.get(UNWANTED, "0") not in ("", "0"):
        return Unavailable(f"{UNWANTED} is set")
    if not library.exists():
        return Unavailable("it was not built when klamm was installed")
    try:
        loaded = ctypes.PyDLL(str(library))
        number = loaded.klamm_source
        number.restype = ctypes.c_uint32
        if number() != zlib.crc32(source.read_bytes()):
            return Unavailable("it was built from another version of klamm")
    except (OSError, AttributeError) as fault:
        return Unavailable(f"it does not load: {fault}")
    return loaded
