import json
from io import StringIO

import pytest
from rich.console import Console

from klamm.cli.output import print_json, say, table
from klamm.cli.spark.jobs import Bar


def test_columns_are_aligned_numbers_to_the_right() -> None:
    rows = [("orders", 12, "-"), ("p", 3, "compact")]
    assert table(("topic", "partitions", "policy"), rows).splitlines() == [
        "TOPIC   PARTITIONS  POLICY",
        "orders          12  -",
        "p                3  compact",
    ]


def test_a_table_without_rows_is_its_header() -> None:
    assert table(("topic",), []) == "TOPIC"


EVIL = "\x1b[2Jx\nFAKE  LINE\u202e"


def test_a_cell_from_a_stranger_is_one_cell() -> None:
    _, row = table(("group", "state"), [(EVIL, "Stable")]).splitlines()
    assert row == r"\x1b[2Jx\nFAKE  LINE\u202e  Stable"


def test_a_line_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"group {EVIL}", "a\tb", keep="\t")
    assert capsys.readouterr().out.splitlines() == [r"group \x1b[2Jx\nFAKE  LINE\u202e", "a\tb"]


def test_json_is_what_was_said_without_what_steers(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"group": EVIL, "other": "\x9b\ud800"})
    text = capsys.readouterr().out
    assert not set(text) & set("\x1b\x9b\u202e")
    assert json.loads(text) == {"group": EVIL, "other": "\x9b\ud800"}


def test_a_bar_prints_markup_in_a_name_as_it_is() -> None:
    out = StringIO()
    bar = Bar(Console(file=out, force_terminal=True, width=120, color_system=None))
    bar.begin("archiving [link=http://x]o[/link]\x1b]0;t\x07", 10)
    bar.end()
    assert r"archiving [link=http://x]o[/link]\x1b]0;t\x07" in out.getvalue()
