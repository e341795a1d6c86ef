"""The levels of klamm's loggers, as settings of a broker (KIP-412).

They are Python's loggers of this process: brokers that share a process share them, and a restart
forgets what was changed. Kafka's six levels are used on the wire.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from klamm.broker.admin.entries import SettingEntry
from klamm.controller.admission.alteration import Change
from klamm.model.alterations import SettingOperation
from klamm.model.errors import ErrorCode, Refused
from klamm.model.settings import Definition, Kind, Origin, Source

_LEVELS: Final[Mapping[str, int]] = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}
ROOT: Final = "klamm"


def entries() -> Iterator[SettingEntry]:
    """Every logger there is, with the level in force."""
    for name in _names():
        level = _level_name(logging.getLogger(name).getEffectiveLevel())
        origin = Origin(name, level, Source.DYNAMIC_BROKER_LOGGER)
        definition = Definition(name=name, kind=Kind.STRING, default=None, doc="A logger's level.")
        yield SettingEntry(definition, level, origin.source, False, [origin])


def alter(changes: Sequence[Change], *, validate_only: bool) -> Refused | None:
    """Set levels, or take them back to the level of the logger above; all of them or none."""
    for change in changes:
        refused = _fault(change)
        if refused is not None:
            return refused
    if not validate_only:
        for change in changes:
            level = (change.value or "").upper()
            deleted = change.operation == SettingOperation.DELETE
            logging.getLogger(change.name).setLevel(logging.NOTSET if deleted else _LEVELS[level])
    return None


def _fault(change: Change) -> Refused | None:
    if change.name not in _names():
        return Refused(f"there is no logger {change.name}", ErrorCode.INVALID_CONFIG)
    match change.operation:
        case SettingOperation.SET if (change.value or "").upper() in _LEVELS:
            return None
        case SettingOperation.SET:
            return Refused(
                f"{change.value} is none of {', '.join(_LEVELS)}", ErrorCode.INVALID_CONFIG
            )
        case SettingOperation.DELETE if change.name != ROOT:
            return None
        case SettingOperation.DELETE:
            return Refused(f"{ROOT} has no logger above it", ErrorCode.INVALID_REQUEST)
        case _:
            return Refused("the level of a logger is not a list")


def _names() -> list[str]:
    known = logging.root.manager.loggerDict
    return sorted({ROOT, *(name for name in known if name.startswith(f"{ROOT}."))})


def _level_name(level: int) -> str:
    """The nearest of Kafka's levels that is not below this one."""
    return min(_LEVELS, key=lambda name: (_LEVELS[name] < level, abs(_LEVELS[name] - level)))
