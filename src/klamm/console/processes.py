"""The brokers' processes on this machine, where the console was given them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

# What can be done to a process, and what it must be for that.
VERBS: Final[Mapping[str, tuple[str, ...]]] = {
    "stop": ("running", "paused"),
    "kill": ("running", "paused"),
    "start": ("stopped", "killed", "failed"),
    "pause": ("running",),
    "resume": ("paused",),
}


class Processes(Protocol):
    """The processes of a cluster on this machine."""

    async def states(self) -> Mapping[int, str]:
        """The state of each broker's process: running, stopped, killed, paused, failed."""

    async def do(self, verb: str, broker: int) -> Mapping[str, Any]:
        """Does one of `VERBS` to a broker."""
