"""Tools that a console may have beside the wire: jobs, the brokers' processes, kept moments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from klamm.console.jobs.children import Jobs
from klamm.console.moments import Moments

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


@dataclass(slots=True, kw_only=True)
class Tools:
    """The tools of one console over one cluster; None for what it was not given."""

    jobs: Jobs | None = None
    processes: Processes | None = None
    moments: Moments = field(default_factory=Moments)
