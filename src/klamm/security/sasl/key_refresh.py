"""Fetches the keys of a token service early, if a token names a key that nobody has.

Strangers choose the names, so they are few, short, and each counts once a minute.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

_PAUSE_MS: Final = 60_000
_REMEMBERED_MAX: Final = 16
_KEY_ID_SIZE_MAX: Final = 1000


class EarlyRefresh:
    """The key ids for which the keys were fetched, and when."""

    __slots__ = ("_asked",)

    def __init__(self) -> None:
        self._asked: OrderedDict[str, int] = OrderedDict()

    def wants(self, key_id: str, now_ms: int) -> bool:
        """Whether a token with this unknown key is a reason to fetch the keys now."""
        if not key_id or len(key_id) > _KEY_ID_SIZE_MAX:
            return False
        asked_ms = self._asked.get(key_id)
        if asked_ms is not None and now_ms - asked_ms < _PAUSE_MS:
            return False
        if asked_ms is None and len(self._asked) >= _REMEMBERED_MAX:
            oldest_ms = next(iter(self._asked.values()))
            if now_ms - oldest_ms < _PAUSE_MS:
                return False
            self._asked.popitem(last=False)
        self._asked[key_id] = now_ms
        self._asked.move_to_end(key_id)
        return True
