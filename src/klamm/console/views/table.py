"""The table of all views, and which of them stand in the bar."""

from __future__ import annotations

from typing import Final

from klamm.console.scene import View
from klamm.console.views import (
    brokers,
    compare,
    groups,
    health,
    jobs,
    ledger,
    records,
    stories,
    topics,
)
from klamm.console.views.finding import finder

_PAGES: Final[tuple[View, ...]] = (
    *health.VIEWS,
    *topics.VIEWS,
    *stories.VIEWS,
    *records.VIEWS,
    *groups.VIEWS,
    *brokers.VIEWS,
    *ledger.VIEWS,
    *jobs.VIEWS,
    *compare.VIEWS,
)
VIEWS: Final[tuple[View, ...]] = (*_PAGES, finder(_PAGES))
BY_NAME: Final = {view.name: view for view in VIEWS}
# What the bar shows, in its order.
BAR: Final = (
    "health",
    "topics",
    "groups",
    "brokers",
    "moves",
    "elections",
    "deletions",
    "what-if",
    "waits",
    "ledger",
    "jobs",
    "compare",
)
