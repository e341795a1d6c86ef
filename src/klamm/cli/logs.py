"""Log records for a terminal or a machine: the message, and the fields that came with it."""

from __future__ import annotations

import logging
import sys
from enum import StrEnum
from types import TracebackType
from typing import Final

from klamm.model.text import json_text, printable

_ORDINARY: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


_TAB: Final = "\t"
_ExceptionInfo = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)


class LogFormat(StrEnum):
    """The shape of a line."""

    TEXT = "text"
    JSON = "json"


def to_stderr(level: int, form: LogFormat, process: str = "") -> None:
    """Send everything from this level on to stderr; each line names the process, if it has one."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json(process) if form is LogFormat.JSON else _Text(process))
    logging.basicConfig(level=level, handlers=[handler])
    if level > logging.INFO:
        # It warns at each attempt; what came of them all is told by whoever asked for them.
        logging.getLogger("kazoo").setLevel(logging.CRITICAL)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _ORDINARY}


class _Text(logging.Formatter):
    """`12:00:00,123 INFO klamm.broker.server registered broker=0 epoch=12`."""

    def __init__(self, process: str = "") -> None:
        whose = f"{process} " if process else ""
        super().__init__(f"%(asctime)s {whose}%(levelname)s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        return printable(super().formatMessage(record) + fields)

    def formatException(self, ei: _ExceptionInfo) -> str:
        """Indented, so that nothing in it can be taken for a line of the log."""
        lines = super().formatException(ei).split("\n")
        return "\n".join(f"  {printable(line, keep=_TAB)}" for line in lines)

    def formatStack(self, stack_info: str) -> str:
        lines = super().formatStack(stack_info).split("\n")
        return "\n".join(f"  {printable(line, keep=_TAB)}" for line in lines)


class _Json(logging.Formatter):
    """One object a line."""

    def __init__(self, process: str = "") -> None:
        super().__init__()
        self._whose = {"process": process} if process else {}

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time_ms": int(record.created * 1000),
            **self._whose,
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json_text(entry)
