"""Counts logins and handshakes, by listener."""

from __future__ import annotations

from collections import Counter
from typing import Final

LOGINS: Final = "successful"
REPEATED: Final = "successful-again"
UNREPEATABLE: Final = "successful-no-reauth"  # by a client that knows nothing of sessions
FAILED: Final = "failed"
EXPIRED: Final = "expired"


class LoginCounts:
    """The outcomes of logins since the broker came up."""

    def __init__(self) -> None:
        self.by_outcome: Counter[tuple[str, str]] = Counter()

    def total(self, outcome: str) -> int:
        """The number of one outcome, on all listeners."""
        return sum(n for (_, what), n in self.by_outcome.items() if what == outcome)

    def logged_in(self, listener: str, *, again: bool, can_repeat: bool) -> None:
        self.by_outcome[listener, REPEATED if again else LOGINS] += 1
        if not again and not can_repeat:
            self.by_outcome[listener, UNREPEATABLE] += 1

    def failed(self, listener: str) -> None:
        self.by_outcome[listener, FAILED] += 1

    def expired(self, listener: str) -> None:
        self.by_outcome[listener, EXPIRED] += 1
