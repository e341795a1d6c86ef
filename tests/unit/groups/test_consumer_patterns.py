"""Patterns for topic names: what they stand for, what is refused, and that none takes for ever."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.groups.consumer import patterns
from klamm.groups.consumer.patterns import TopicPattern, parse, too_costly
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


NAMES = [f"abcabcabc-{number:05}-abcabcabc" for number in range(1_000)]


@pytest.mark.parametrize("text", ["((a|b|c)*){100}x?", "(.*a|.*b){100}"])
def test_a_pattern_that_costs_too_much_is_given_up(text: str) -> None:
    pattern = TopicPattern(text)
    pattern._looks_left = 2_000  # as if it had been asked a lot already
    assert not any(pattern.matches(name) for name in NAMES)
    assert pattern.is_given_up
    assert not pattern._ways, "what was kept for it is let go"


@pytest.mark.parametrize(
    "text", ["abc.*", "(a|b|c|-|[0-9]){1,60}", "[a-z]+-[0-9]{5}-(abc)+", "(?i)ABC.*", "a.*c"]
)
def test_an_honest_pattern_costs_little_for_any_number_of_names(text: str) -> None:
    pattern = TopicPattern(text)
    assert all(pattern.matches(name) for name in NAMES)
    assert pattern._looks_left > 190_000


def test_a_pattern_is_refused_for_the_cluster_it_costs_too_much_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patterns, "_LOOKS_MAX", 2_000)
    text = "((a|b|c)*){90}x?"
    assert not isinstance(parse(text), Refused), "it is one that is understood"
    refused = too_costly(text, NAMES)
    assert refused is not None
    assert "takes too long" in refused.why
    assert too_costly("abc.*", NAMES) is None
    parse.cache_clear()


def test_groups_are_no_deeper_than_a_stack() -> None:
    assert not isinstance(parse("(" * 50 + "a" + ")" * 50), Refused)
    for depth in (51, 400):
        refused = parse("(" * depth + "a" + ")" * depth)
        assert isinstance(refused, Refused)
        assert "deeper" in refused.why


def test_a_refusal_does_not_repeat_a_book() -> None:
    refused = parse("(" * 32_000)
    assert isinstance(refused, Refused)
    assert len(refused.why) < 300
