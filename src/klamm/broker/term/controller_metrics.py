"""Counts what a controller does (`broker/metrics.py`)."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from klamm.broker.metrics import Histogram
from klamm.broker.term.controller_states import ControllerState


class ControllerMetrics:
    """The work of this broker while it was the controller, in all of its terms."""

    def __init__(self) -> None:
        self.state = ControllerState.IDLE
        self.queue_s: defaultdict[str, Histogram] = defaultdict(Histogram)  # by kind of event
        self.work_s: defaultdict[ControllerState, Histogram] = defaultdict(Histogram)
        self.unclean_elections = 0
        self.orders_spared = 0  # brokers said that they had them from an earlier controller

    @contextmanager
    def working(self, state: ControllerState) -> Iterator[None]:
        """While an event is worked on. Something urgent may come in between: it nests."""
        before, self.state, began = self.state, state, time.perf_counter()
        try:
            yield
        finally:
            self.state = before
            self.work_s[state].observe(time.perf_counter() - began)
