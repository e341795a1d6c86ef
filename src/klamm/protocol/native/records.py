"""The compiled twins of `record_scan`: the same records pass, for a hundredth of the time.

The functions take any object with a buffer and look at its bytes where they lie. Those that may
have much to do let go of the interpreter meanwhile.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_int, c_int64, py_object
from typing import Any, Final

from klamm.model.errors import ProtocolError
from klamm.protocol.compression import Buffer
from klamm.protocol.native.library import Unavailable, load
from klamm.protocol.record_scan import FAULTS_MAX, LONG_MAX, Fault, RecordBounds, RecordPlace, Rules

_WORDS: Final = (
    "ends behind the end of its batch",
    "has other lengths than it says",
    "has another offset than its place says",
    "has a time beyond all bounds",
)


class _Answer(ctypes.Structure):
    """`struct answer` of records.c."""

    _fields_ = [
        ("fault", c_int64),
        ("record", c_int64),
        ("end", c_int64),
        ("latest", c_int64),
        ("named", c_int64),
        ("broken", c_int64 * 2 * FAULTS_MAX),
    ]


class _Place(ctypes.Structure):
    """`struct place` of records.c."""

    _fields_ = [("is_found", c_int64), ("offset", c_int64), ("time", c_int64)]


_Rules: Final = c_int64 * 4
_Bounds: Final = c_int64 * 3


class Kernel:
    """The functions of a library that was loaded."""

    __slots__ = ("_find", "_scan", "holds")

    def __init__(self, library: ctypes.PyDLL) -> None:
        # Whether a whole batch that is not compressed, and held to no rules, has sound records with
        # the largest time it says. Called for nearly every batch, so nothing stands in between.
        self.holds: Any = _typed(library.klamm_holds, py_object)
        self._scan = _typed(
            library.klamm_scan, py_object, c_int64, POINTER(_Rules), POINTER(_Answer)
        )
        self._find = _typed(
            library.klamm_find, py_object, c_int64, POINTER(_Bounds), c_int, POINTER(_Place)
        )

    def scan(self, area: Buffer, count: int, rules: Rules, faults: list[Fault]) -> tuple[int, int]:
        """Open all records of an area; where the last one ends, and the latest time."""
        base, oldest, newest, needs_key = rules
        answer = _Answer()
        limits = _Rules(base, _bounded(oldest), _bounded(newest), needs_key)
        if not self._scan(area, count, limits, byref(answer)):
            raise ProtocolError(f"{base} is no timestamp")
        if answer.fault >= 0:
            raise ProtocolError(f"record {answer.record} {_WORDS[answer.fault]}")
        for record, time in answer.broken[: answer.named]:
            faults.append(Fault(record, None if time == LONG_MAX else time))
        return answer.end, answer.latest

    def find_first(self, area: Buffer, count: int, bounds: RecordBounds) -> RecordPlace | None:
        """The first record within the bounds that is not older."""
        return self._found(area, count, bounds, newest=False)

    def find_newest(self, area: Buffer, count: int, bounds: RecordBounds) -> RecordPlace | None:
        """The first of the records within the bounds that have the largest time."""
        return self._found(area, count, bounds, newest=True)

    def _found(
        self, area: Buffer, count: int, bounds: RecordBounds, *, newest: bool
    ) -> RecordPlace | None:
        place = _Place()
        limits = _Bounds(*map(_bounded, bounds))
        if not self._find(area, count, limits, newest, byref(place)):
            raise ProtocolError("a record has another length than it says")
        return RecordPlace(place.offset, place.time) if place.is_found else None


def _typed(function: Any, *arguments: Any) -> Any:
    function.argtypes = arguments
    function.restype = c_int
    return function


def _bounded(number: int) -> int:
    """A number as near as 64 bits allow: ctypes would cut it off without a word."""
    return max(-LONG_MAX, min(number, LONG_MAX))


def _loaded() -> Kernel | Unavailable:
    library = load()
    return library if isinstance(library, Unavailable) else Kernel(library)


class Loops:
    """The compiled loops of this process, or why there are none."""

    __slots__ = ("kernel", "why_not")

    def __init__(self) -> None:
        loaded = _loaded()
        self.kernel = None if isinstance(loaded, Unavailable) else loaded
        self.why_not = loaded.why if isinstance(loaded, Unavailable) else ""


LOOPS: Final = Loops()
