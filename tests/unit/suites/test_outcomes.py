"""Outcomes as `go test -json` and pytest tell them."""

from __future__ import annotations

import json

from suites.outcomes import FAILED, PASSED, SKIPPED, of_go, of_junit


def _lines(*events: tuple[str, str | None] | tuple[str, str | None, str]) -> list[str]:
    lines = []
    for action, test, *output in events:
        event = {"Action": action, "Package": "example.org/client/kgo"}
        if test is not None:
            event["Test"] = test
        if output:
            event["Output"] = output[0]
        lines.append(json.dumps(event))
    return lines


def _told(*events: tuple[str, str | None] | tuple[str, str | None, str]) -> dict[str, str]:
    return {each.test: each.result for each in of_go(_lines(*events))}


def test_only_the_innermost_tests_of_go_count() -> None:
    assert _told(
        ("run", "TestA"),
        ("run", "TestA/one"),
        ("pass", "TestA/one"),
        ("run", "TestA/two"),
        ("fail", "TestA/two"),
        ("fail", "TestA"),
        ("run", "TestB"),
        ("skip", "TestB"),
        ("fail", None),
    ) == {"kgo.TestA/one": PASSED, "kgo.TestA/two": FAILED, "kgo.TestB": SKIPPED}


def test_a_test_that_fails_after_its_parts_counts_itself() -> None:
    assert _told(
        ("run", "TestA"), ("run", "TestA/one"), ("pass", "TestA/one"), ("fail", "TestA")
    ) == {"kgo.TestA/one": PASSED, "kgo.TestA": FAILED}


def test_a_test_that_never_ends_has_failed() -> None:
    assert _told(("run", "TestA"), ("pass", "TestA"), ("run", "TestB"), ("fail", None)) == {
        "kgo.TestA": PASSED,
        "kgo.TestB": FAILED,
    }


def test_a_package_that_does_not_compile_has_failed() -> None:
    noise = "# a line that is not JSON"
    (outcome,) = of_go([noise, *_lines(("output", None, "undefined: x\n"), ("fail", None))])
    assert (outcome.test, outcome.result, outcome.output) == ("kgo", FAILED, "undefined: x\n")


def test_outcomes_of_pytest() -> None:
    text = """<testsuites><testsuite>
      <testcase classname="test.integration.test_admin" name="test_good"/>
      <testcase classname="test.integration.test_admin" name="test_bad[1]">
        <failure message="m">assert 1 == 2</failure></testcase>
      <testcase classname="test.integration.test_admin" name="test_left"><skipped/></testcase>
      <testcase classname="test.integration.test_admin" name="test_dirty"/>
      <testcase classname="test.integration.test_admin" name="test_dirty">
        <error message="while cleaning up"/></testcase>
    </testsuite></testsuites>"""
    assert [(each.test, each.result, each.output) for each in of_junit(text)] == [
        ("test_admin::test_good", PASSED, ""),
        ("test_admin::test_bad[1]", FAILED, "assert 1 == 2"),
        ("test_admin::test_left", SKIPPED, ""),
        ("test_admin::test_dirty", FAILED, "while cleaning up"),
    ]
