"""The directory of a log, as far as a log that is on paper needs it."""

from __future__ import annotations

from typing import Protocol, TypeVar

LogT = TypeVar("LogT", contravariant=True)


class Home(Protocol[LogT]):
    """Keeps the line of a log that has no files."""

    def begun(self, log: LogT) -> None:
        """The log has files from now on."""
        ...

    def identified(self, log: LogT) -> None:
        """The log's topic has an id that was not known before."""
        ...
