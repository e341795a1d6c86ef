"""The audit: who did what, and who looked at records, as JSON lines."""

from __future__ import annotations

import json
import logging
import time
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final

log: Final = logging.getLogger("klamm.console.audit")
_BYTES: Final = 10_000_000
_FILES: Final = 10


class Audit:
    """Writes to the log, and to a file of its own where one is named."""

    def __init__(self, path: Path | None) -> None:
        self._handler: RotatingFileHandler | None = None
        if path is not None:
            self._handler = RotatingFileHandler(
                path, maxBytes=_BYTES, backupCount=_FILES, encoding="utf-8", delay=True
            )

    def note(self, **what: Any) -> None:
        """One line."""
        entry = {"time_ms": time.time_ns() // 1_000_000, **what}
        log.info("console", extra={"entry": entry})
        if self._handler is not None:
            text = json.dumps(entry, default=str)
            record = logging.LogRecord("audit", logging.INFO, "", 0, text, None, None)
            self._handler.emit(record)

    def close(self) -> None:
        """Lets go of the file."""
        if self._handler is not None:
            self._handler.close()
