"""Log records for a terminal or a machine: the message, and the fields that came with it."""

from __future__ import annotations

import json
import logging
import sys
from enum import StrEnum
from typing import Final

_ORDINARY: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class LogFormat(StrEnum):
    """The shape of a line."""

    TEXT = "text"
    JSON = "json"


def to_stderr(level: int, form: LogFormat) -> None:
    """Send everything from this level on to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form is LogFormat.JSON else _Text())
    logging.basicConfig(level=level, handlers=[handler])
    if level > logging.INFO:
        # It warns at each attempt; what came of them all is told by whoever asked for them.
        logging.getLogger("kazoo").setLevel(logging.CRITICAL)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _ORDINARY}


class _Text(logging.Formatter):
    """`12:00:00,123 INFO klamm.broker.server registered broker=0 epoch=12`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        return super().formatMessage(record) + fields


class _Json(logging.Formatter):
    """One object a line."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time_ms": int(record.created * 1000),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str, ensure_ascii=False)
