"""The plan in a marker. What tasks and the driver do with it is in tests/spark/test_once.py."""

from __future__ import annotations

import pytest

from klamm.pipelines.source.sink_once import Plan


def test_marker_holds_the_plan() -> None:
    plan = Plan.of([3, 0, 5])
    assert Plan.parse(plan.text()) == plan
    assert plan != Plan.of([3, 5, 0])
    assert plan != Plan.of([30, 5])
    # Brokers keep no more than 4096 bytes beside an offset.
    assert len(Plan.of(list(range(100_000))).text()) < 64


@pytest.mark.parametrize(
    "text",
    ["", "v1", "v1 tasks=3", "v1 tasks=x rows=00000000", "v2 tasks=3 rows=00000000", "initial"],
)
def test_other_texts_are_no_plan(text: str) -> None:
    assert Plan.parse(text) is None
