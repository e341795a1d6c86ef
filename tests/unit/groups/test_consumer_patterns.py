"""Patterns for topic names: what they stand for, what is refused, and that none takes for ever."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.groups.consumer.patterns import TopicPattern, parse
from klamm.model.errors import Refused


def matches(text: str, name: str) -> bool:
    pattern = parse(text)
    assert isinstance(pattern, TopicPattern), pattern
    return pattern.matches(name)


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        ("orders", ["orders"], ["order", "orders2"]),
        ("orders.*", ["orders", "orders.eu"], ["my-orders"]),
        ("^orders-[0-9]+$", ["orders-17"], ["orders-", "orders-1a"]),
        (r"a\.b", ["a.b"], ["axb"]),
        ("(a|bc)?d", ["d", "ad", "bcd"], ["abcd"]),
        ("(?:x|y){2,3}", ["xy", "yyx"], ["x", "xxxx"]),
        ("x{2}", ["xx"], ["x", "xxx"]),
        ("x{2,}", ["xx", "xxxxx"], ["x"]),
        (r"\w+-\d", ["a_b-1"], ["a.b-1"]),
        ("[^a-c]+", ["xyz"], ["xay"]),
        ("(?i)Orders", ["ORDERS", "orders"], ["orders1"]),
        ("a*?b+?", ["b", "aabb"], ["a"]),
        ("", [""], ["a"]),
        ("(?P<name>ab)+", ["abab"], ["aba"]),
        ("a^b", [], ["ab", "a^b"]),
        ("()*a", ["a"], ["aa"]),
    ],
)
def test_a_pattern_stands_for_whole_names(text: str, yes: list[str], no: list[str]) -> None:
    assert [name for name in yes if not matches(text, name)] == []
    assert [name for name in no if matches(text, name)] == []


@pytest.mark.parametrize(
    "text",
    [
        *("(", ")", "(a", "[a", "*", "a**", r"\1", "(?=a)", "(?!a)", "(?<=a)b", r"\b", "a{3,2}"),
        *("\\", "a" * 1001, "((a{99}){99})", "[[:alpha:]]", "[z-a]", "(" * 900),
    ],
)
def test_what_is_not_known_is_refused(text: str) -> None:
    assert isinstance(parse(text), Refused)


@pytest.mark.parametrize("text", ["(a+)+$", "(a|a)*b", "(a|aa)+b", "(.*)(.*)(.*)(.*)x"])
def test_malice_costs_no_more_than_length(text: str) -> None:
    # Python's own engine would try 2^249 ways.
    assert not matches(text, "a" * 248 + "-")


_atoms = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\w"])
_patterns = st.recursive(
    _atoms,
    lambda inner: (
        st.tuples(inner, inner).map("".join)
        | st.tuples(inner, inner).map("({0[0]}|{0[1]})".format)
        | st.tuples(inner, st.sampled_from(["*", "+", "?", "{1,2}", "{2}"])).map(
            lambda pair: f"({pair[0]}){pair[1]}"
        )
    ),
    max_leaves=8,
)


@given(_patterns, st.text("ab-", max_size=6))
def test_the_answer_is_that_of_re(text: str, name: str) -> None:
    assert matches(text, name) == bool(re.fullmatch(text, name))
