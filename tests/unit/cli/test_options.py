"""Options that mean the same in every command."""

from __future__ import annotations

import pytest

from klamm.cli.options import parse_pair_list, parse_pairs
from klamm.model.errors import UsageError


def test_a_setting_with_two_values_is_refused() -> None:
    assert parse_pairs(["a=1", "b=x=y", "a=1", "c="], option="-X") == {
        "a": "1",
        "b": "x=y",
        "c": "",
    }
    with pytest.raises(UsageError, match="-X says a=1 and a=2: leave one of them out"):
        parse_pairs(["a=1", "a=2"], option="-X")
    for wrong in ("a", "=1", " =1", ""):
        with pytest.raises(UsageError, match="-X takes name=value"):
            parse_pairs([wrong], option="-X")


def test_a_record_may_have_a_header_twice() -> None:
    assert parse_pair_list(["a=1", "a=2"], option="-H") == [("a", "1"), ("a", "2")]
