"""How long a fetch waits that finds nothing."""

from __future__ import annotations

from klamm.broker.fetching.parking import _patience_s


def test_fetches_that_begin_together_end_apart_and_none_too_late() -> None:
    waits_s = {_patience_s(500) for _ in range(200)}
    assert len(waits_s) > 100
    assert min(waits_s) >= 0.5 * 15 / 16
    assert max(waits_s) <= 0.5
    assert max(waits_s) - min(waits_s) > 0.01
