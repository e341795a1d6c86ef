"""The verdict on a suite: what is explained, what is not, and what the table says of it."""

from __future__ import annotations

import pytest

from suites.catalogue import (
    HERE,
    Explanation,
    Unusable,
    explanations,
    read_explanations,
    read_suites,
    suites,
)
from suites.outcomes import FAILED, PASSED, SKIPPED, Outcome
from suites.verdict import Verdict, judge, table

GOOD, BAD = Outcome("kgo.TestGood", PASSED), Outcome("kgo.TestBad/part", FAILED, "it broke")
KNOWN = (Explanation(("kgo.TestBad",), "no TLS here"),)


def _judge(*outcomes: Outcome, second: tuple[Outcome, ...] = (), known=KNOWN) -> Verdict:  # type: ignore[no-untyped-def]
    return judge("franz-go", "v1", outcomes, second, known)


def test_an_explained_failure_is_good_and_counted() -> None:
    verdict = _judge(GOOD, BAD)
    assert verdict.is_good
    assert (verdict.ran, verdict.passed, verdict.explained) == (
        2,
        1,
        (("kgo.TestBad/part", "no TLS here"),),
    )


def test_a_failure_without_an_explanation_is_bad_and_shown() -> None:
    verdict = _judge(GOOD, BAD, known=())
    assert not verdict.is_good
    said = table([verdict])
    assert "FAILED without an explanation: kgo.TestBad/part" in said
    assert "it broke" in said


def test_a_second_attempt_counts_and_is_named() -> None:
    verdict = _judge(GOOD, BAD, second=(Outcome(BAD.test, PASSED),), known=())
    assert verdict.is_good
    assert (verdict.passed, verdict.again) == (2, (BAD.test,))
    assert "second attempt" in table([verdict])


def test_a_suite_of_which_nothing_ran_is_bad() -> None:
    assert not _judge().is_good
    assert not _judge(Outcome("kgo.TestLeft", SKIPPED)).is_good


def test_what_is_absent_is_told_and_not_bad() -> None:
    verdict = Verdict(suite="kafkajs", version="2", absent="no registry carries its tests")
    assert verdict.is_good
    assert "kafkajs was not run: no registry carries its tests" in table([verdict])


def test_an_explanation_without_a_failure_is_told() -> None:
    verdict = _judge(GOOD)
    assert verdict.needless == ("no TLS here",)
    assert "explanation without a failure: no TLS here" in table([verdict])


def test_patterns_cover_what_they_name() -> None:
    each = Explanation(("sasl.TestSASL", "kgo.Test*Acl"), "why")
    assert each.covers("sasl.TestSASL")
    assert each.covers("sasl.TestSASL/PLAIN")
    assert each.covers("kgo.TestOneAcl")
    assert not each.covers("sasl.TestSASLOther")


@pytest.mark.parametrize(
    "text",
    [
        '[[explained]]\ntests = ["a"]',
        '[[explained]]\nwhy = "b"',
        '[[explained]]\ntests = ["a"]\nwhy = "b"\ntypo = 1',
    ],
)
def test_an_explanation_has_tests_and_a_reason(text: str) -> None:
    with pytest.raises(Unusable):
        explanations(text)


@pytest.mark.parametrize("line", ['registry = "ftp"', 'registry = "go"\nspeed = 1', ""])
def test_a_suite_that_is_not_understood_is_refused(line: str) -> None:
    rest = '[x]\npackage = "p"\nversion = "1"\nrunner = "go"\nrun = []\n'
    with pytest.raises(Unusable):
        suites(rest + line)


def test_all_that_is_stated_can_be_read() -> None:
    known = {suite.name for suite in read_suites(())}
    for file in (HERE / "explained").glob("*.toml"):
        assert file.stem in known, f"{file.name} explains no suite"
        assert read_explanations(file.stem)
    for suite in read_suites(()):
        assert all((HERE / "overlays" / ours).exists() for ours in suite.overlay), suite.name


def test_a_suite_that_nobody_has_is_named() -> None:
    with pytest.raises(Unusable, match=r"No suite is called nonsense\. There are: franz-go"):
        read_suites(["nonsense"])
