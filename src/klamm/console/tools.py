"""Tools that a console may have beside the wire: jobs, the brokers' processes, kept moments."""

from __future__ import annotations

from dataclasses import dataclass, field

from klamm.console.jobs.children import Jobs
from klamm.console.processes import Processes
from klamm.console.reading.moments import Moments


@dataclass(slots=True, kw_only=True)
class Tools:
    """The tools of one console over one cluster; None for what it was not given."""

    jobs: Jobs | None = None
    processes: Processes | None = None
    moments: Moments = field(default_factory=Moments)
