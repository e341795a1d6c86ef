"""Times as people write them."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Final

from klamm.model.errors import UsageError

_AGO: Final = re.compile(r"-(\d{1,9})(ms|s|m|h|d)")
_LAST_S: Final = 253_402_300_799  # the end of year 9999
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def moment_of(text: str) -> int:
    """`-1h` (so long ago), or what `parse_time` takes; milliseconds since 1970."""
    ago = _AGO.fullmatch(text)
    if ago is None:
        return parse_time(text)
    return max(0, time.time_ns() // 1_000_000 - int(ago[1]) * _UNITS_MS[ago[2]])


def parse_time(text: str) -> int:
    """`2026-11-15`, `2026-11-15T08:30` (UTC unless it says otherwise), or milliseconds."""
    try:
        if text.isdigit():
            # Whatever counts as a time must be one that can be shown.
            datetime.fromtimestamp(int(text) / 1000, UTC)
            return int(text)
        found = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"{text!r} is not a time: write 2026-11-15T08:30 or milliseconds"
        ) from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def clock_of(time_ms: int) -> str:
    """A day and a time of day, here."""
    # What a setting says may be further away than calendars go.
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(min(time_ms // 1000, _LAST_S)))
