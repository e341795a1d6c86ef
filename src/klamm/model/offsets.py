"""The names of places in a log, as the negative timestamps of ListOffsets."""

from __future__ import annotations

from typing import Final

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3  # the record with the largest timestamp
EARLIEST_LOCAL: Final = -4  # on local disks
LATEST_TIERED: Final = -5  # in remote storage
