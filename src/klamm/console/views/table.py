"""The table of all views, and which of them stand in the bar."""

from __future__ import annotations

from typing import Final

from klamm.console.scene import View
from klamm.console.views import health, stories, topics

VIEWS: Final[tuple[View, ...]] = (*health.VIEWS, *topics.VIEWS, *stories.VIEWS)
BY_NAME: Final = {view.name: view for view in VIEWS}
# What the bar shows, in its order; a view that is not there is not linked.
BAR: Final = tuple(name for name in ("health", "topics", "waits") if name in BY_NAME)
