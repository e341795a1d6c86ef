"""Outcomes of single tests, from what `go test -json` and pytest's JUnit file say.

Only the innermost tests count. A test that began and never ended has failed, and so has a package
that failed without any test of its own to blame: a panic, or a program that does not compile.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree

PASSED: Final = "passed"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"
_OF_GO: Final = {"pass": PASSED, "fail": FAILED, "skip": SKIPPED}
_OUTPUT_MAX: Final = 4000


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one test."""

    test: str
    result: str
    output: str = ""


def of_go(lines: Iterable[str]) -> list[Outcome]:
    """The outcomes in the stream of `go test -json`; a line that is not JSON is passed over."""
    results: dict[str, str] = {}
    outputs: dict[str, str] = {}
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        name = _name_of_go(event)
        action = event.get("Action")
        if action == "output":
            outputs[name] = (outputs.get(name, "") + event.get("Output", ""))[-_OUTPUT_MAX:]
        elif action == "run":
            results[name] = FAILED
        elif action in _OF_GO:
            results[name] = _OF_GO[action]
    return [
        Outcome(name, result, outputs.get(name, ""))
        for name, result in results.items()
        if _counts(name, result, results)
    ]


def _name_of_go(event: dict[str, str]) -> str:
    package = event.get("Package", event.get("ImportPath", "")).split(" ")[0].rsplit("/", 1)[-1]
    return f"{package}.{event['Test']}" if "Test" in event else package


def _counts(name: str, result: str, results: dict[str, str]) -> bool:
    """Whether a test is an innermost one, or has failed although all within it went well."""
    inside = f"{name}/" if "." in name else f"{name}."
    within = [each for test, each in results.items() if test.startswith(inside)]
    if not within:
        return "." in name or result == FAILED
    return result == FAILED and FAILED not in within


def of_junit(text: str) -> list[Outcome]:
    """The outcomes in a JUnit file as pytest writes it."""
    found = []
    for case in ElementTree.fromstring(text).iter("testcase"):
        name = f"{case.get('classname', '').rsplit('.', 1)[-1]}::{case.get('name', '')}"
        faults = [each for each in case if each.tag in ("failure", "error")]
        result = FAILED if faults else SKIPPED if case.find("skipped") is not None else PASSED
        output = "".join((each.text or each.get("message") or "") for each in faults)
        found.append(Outcome(name, result, output[-_OUTPUT_MAX:]))
    return _last_word(found)


def _last_word(outcomes: list[Outcome]) -> list[Outcome]:
    """One outcome a test: a fault while it cleans up comes as a second case of its name."""
    last: dict[str, Outcome] = {}
    for each in outcomes:
        if each.test not in last or each.result == FAILED:
            last[each.test] = each
    return list(last.values())
