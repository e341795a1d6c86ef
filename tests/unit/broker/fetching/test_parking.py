"""How long a fetch waits that finds nothing."""

from __future__ import annotations

from klamm.broker.fetching.parking import _patience_s


def test_fetches_that_begin_together_end_apart_and_none_too_early() -> None:
    waits_s = {_patience_s(500) for _ in range(200)}
    assert len(waits_s) > 100
    assert min(waits_s) >= 0.5
    assert max(waits_s) <= 0.5 * 17 / 16
    assert max(waits_s) - min(waits_s) > 0.01
    assert _patience_s(30_000) <= 30.05, "who waits long has a time of its own to give up"
