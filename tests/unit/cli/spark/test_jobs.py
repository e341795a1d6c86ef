"""The bar of a job, on terminals of all widths; and times as people write them."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from klamm.cli.spark.jobs import Bar
from klamm.cli.times import parse_time
from klamm.model.errors import UsageError


def _last_line(width: int, what: str, total: int) -> str:
    told, seconds = io.StringIO(), [0.0]
    console = Console(
        file=told,
        width=width,
        force_terminal=True,
        color_system=None,
        get_time=lambda: seconds[0],
    )
    bar = Bar(console)
    bar.begin(what, total)
    seconds[0] = 8.0
    bar.reached(total, 123 << 20)
    bar.end()
    return next(line for line in reversed(told.getvalue().splitlines()) if "MB" in line)


@pytest.mark.parametrize("width", [60, 80, 132])
@pytest.mark.parametrize(
    ("what", "total"),
    [("proving t", 7), ("archiving orders", 204_000), ("archiving " + "x" * 90, 7_999_999)],
    ids=["short", "usual", "long"],
)
def test_numbers_are_whole_on_any_terminal(width: int, what: str, total: int) -> None:
    line = _last_line(width, what, total)
    assert f"{total:,}" in line
    assert f" {total / 8:,.0f}/s " in line
    assert "123.0 MB" in line
    assert line.rstrip().endswith("0:00:00")
    assert what[:9] in line


def test_wide_terminals_see_all() -> None:
    line = _last_line(100, "archiving orders", 204_000)
    assert "archiving orders \u2501\u2501\u2501" in line
    assert "204,000/204,000" in line


def test_nothing_is_drawn_where_nobody_looks() -> None:
    told = io.StringIO()
    bar = Bar(Console(file=told, width=80))
    bar.begin("archiving orders", 7)
    bar.reached(7, 7)
    bar.end()
    assert told.getvalue() == ""


@pytest.mark.parametrize(
    "text", ["tomorrow", "-5", "2026-11-16T25:00", "9" * 20, "9" * 400, "²", ""]
)
def test_what_is_no_time_is_said(text: str) -> None:
    with pytest.raises(UsageError, match="is not a time: write 2026-11-15T08:30 or milliseconds"):
        parse_time(text)


def test_times_are_utc_unless_they_say_otherwise() -> None:
    assert parse_time("2026-11-15") == parse_time("2026-11-15T02:00+02:00") == 1_794_700_800_000
    assert parse_time("1794700800000") == 1_794_700_800_000
