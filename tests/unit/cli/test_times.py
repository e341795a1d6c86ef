"""Times as people write them."""

from __future__ import annotations

import time

import pytest

from klamm.cli.times import moment_of
from klamm.model.errors import UsageError


@pytest.mark.parametrize(
    ("text", "ago_ms"), [("-1h", 3_600_000), ("-90s", 90_000), ("-2d", 172_800_000)]
)
def test_a_time_may_be_said_from_now(text: str, ago_ms: int) -> None:
    now_ms = time.time_ns() // 1_000_000
    assert 0 <= moment_of(text) - (now_ms - ago_ms) < 5_000


def test_before_1970_is_1970() -> None:
    assert moment_of("-999999d") == 0


@pytest.mark.parametrize("text", ["", "-1", "1h", "-1w", "yesterday", "-1h30m"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a time"):
        moment_of(text)
