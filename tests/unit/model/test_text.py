"""What could steer a terminal is shown by its code, and nothing else is changed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.model.text import json_text, printable

ATTACKS = {
    "\x1b[2J": r"\x1b[2J",
    "\x1b]0;title\x07": r"\x1b]0;title\x07",
    "a\nb\r\tc": r"a\nb\r\tc",
    "\x7f\x9b31m": r"\x7f\x9b31m",
    "abc\u202efdp.exe": r"abc\u202efdp.exe",
    "\u2066\u2069\u200f\u061c": r"\u2066\u2069\u200f\u061c",
    "\u2028\ufeff": r"\u2028\ufeff",
    "\ud800": r"\ud800",
    "\U000e0041": r"\U000e0041",
}


@pytest.mark.parametrize("text", ATTACKS)
def test_attacks_are_shown_by_their_codes(text: str) -> None:
    assert printable(text) == ATTACKS[text]


@pytest.mark.parametrize("text", ["", "orders-0", "größe 漢字 🦆 \\x1b", "a\u200cb", "[bold]x[/]"])
def test_what_is_only_text_stays(text: str) -> None:
    assert printable(text) == text


def test_tabs_stay_where_they_are_wanted() -> None:
    assert printable("a\tb\n", keep="\t") == "a\tb\\n"


_ANY = st.text(st.characters(exclude_categories=()))


@given(_ANY)
def test_what_is_printable_is_one_line_that_can_be_written(text: str) -> None:
    shown = printable(text)
    assert len(shown.splitlines()) <= 1
    assert shown.encode().decode() == shown
    assert printable(shown) == shown


@given(st.dictionaries(_ANY, _ANY | st.integers() | st.none()), st.sampled_from([None, 2]))
def test_json_means_the_same_and_steers_nothing(value: dict[str, object], indent: int) -> None:
    text = json_text(value, indent)
    assert json.loads(text) == json.loads(json.dumps(value))
    assert printable(text, keep="\n") == text
    assert text.encode()
