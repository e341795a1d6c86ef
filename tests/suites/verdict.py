"""Verdict on one suite: which failures are explained, and the table of all suites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from suites.catalogue import Explanation
from suites.outcomes import FAILED, PASSED, SKIPPED, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of one suite."""

    suite: str
    version: str
    passed: int = 0
    skipped: int = 0
    again: tuple[str, ...] = ()  # passed at the second attempt only
    explained: tuple[tuple[str, str], ...] = ()  # test and reason
    unexplained: tuple[Outcome, ...] = ()
    needless: tuple[str, ...] = ()  # reasons whose tests all passed
    seconds: float = 0.0
    absent: str = ""  # why it was not run at all
    faults: tuple[str, ...] = field(default=())  # faults of the run itself, such as its end

    @property
    def is_good(self) -> bool:
        """Whether nothing failed without an explanation; what is absent is not bad."""
        return not self.unexplained and not self.faults

    @property
    def ran(self) -> int:
        return self.passed + len(self.explained) + len(self.unexplained)

    def as_json(self) -> dict[str, Any]:
        """The numbers, and every name that stands behind one."""
        return {
            "suite": self.suite,
            "version": self.version,
            "ran": self.ran,
            "passed": self.passed,
            "failed": len(self.unexplained),
            "skipped": self.skipped,
            "explained": dict(self.explained),
            "unexplained": [each.test for each in self.unexplained],
            "second_attempt": list(self.again),
            "seconds": round(self.seconds, 1),
            **({"absent": self.absent} if self.absent else {}),
            **({"faults": list(self.faults)} if self.faults else {}),
        }


def judge(
    suite: str,
    version: str,
    first: Sequence[Outcome],
    second: Sequence[Outcome],
    known: Sequence[Explanation],
    *,
    seconds: float = 0.0,
    faults: Sequence[str] = (),
) -> Verdict:
    """The verdict on a run; tests that failed had a second attempt.

    A test whose second attempt passes counts as passed, and is named. A suite of which nothing ran
    proves nothing, and is a fault.
    """
    rescued = {each.test for each in second if each.result == PASSED}
    failed = [each for each in first if each.result == FAILED and each.test not in rescued]
    again = tuple(e.test for e in first if e.result == FAILED and e.test in rescued)
    passed = sum(each.result == PASSED for each in first) + len(again)
    explained = tuple((each.test, why) for each in failed if (why := _why(each.test, known)))
    if not passed:
        faults = (*faults, "not a single test passed: the suite did not really run")
    return Verdict(
        suite=suite,
        version=version,
        passed=passed,
        skipped=sum(each.result == SKIPPED for each in first),
        again=again,
        explained=explained,
        unexplained=tuple(each for each in failed if not _why(each.test, known)),
        needless=tuple(
            each.why
            for each in known
            if each.run and not any(each.covers(outcome.test) for outcome in failed)
        ),
        seconds=seconds,
        faults=tuple(faults),
    )


def _why(test: str, known: Sequence[Explanation]) -> str:
    return next((each.why for each in known if each.covers(test)), "")


def table(verdicts: Sequence[Verdict]) -> str:
    """The table of all suites, and below it what needs words."""
    rows = [("suite", "version", "ran", "passed", "failed", "explained", "skipped", "seconds")]
    rows += [
        (
            *(v.suite, v.version, str(v.ran), str(v.passed), str(len(v.unexplained))),
            *(str(len(v.explained)), str(v.skipped), f"{v.seconds:.0f}"),
        )
        for v in verdicts
        if not v.absent
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if at < 2 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join(lines + [line for v in verdicts for line in _words(v)])


def _words(v: Verdict) -> list[str]:
    lines = [f"\n{v.suite} was not run: {v.absent}"] if v.absent else []
    for why in dict.fromkeys(why for _, why in v.explained):
        tests = [test for test, reason in v.explained if reason == why]
        lines.append(f"\n{v.suite}, explained: {why}")
        lines += [f"  {test}" for test in tests]
    if v.again:
        lines.append(f"\n{v.suite}, passed at the second attempt:")
        lines += [f"  {test}" for test in v.again]
    lines += [f"\n{v.suite}, explanation without a failure: {why}" for why in v.needless]
    lines += [f"\n{v.suite}, FAULT: {fault}" for fault in v.faults]
    for each in v.unexplained:
        lines.append(f"\n{v.suite}, FAILED without an explanation: {each.test}")
        lines += [f"    {line}" for line in each.output.strip().splitlines()[-25:]]
    return lines
