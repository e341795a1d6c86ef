"""Real processes under fire: a smoke of it in every test run, all of it by `make chaos`.

KLAMM_CHAOS_REPORTS names a directory that reports are kept in, besides being printed, and
KLAMM_CHAOS_STORIES one for all that was said during the longest gaps.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.run import Report

_REPORTS: list[Report] = []


@pytest.fixture
def told() -> Callable[[Report], Report]:
    """Have a report printed at the end, and kept where one is asked to."""

    def tell(report: Report) -> Report:
        if kept := os.environ.get("KLAMM_CHAOS_REPORTS"):
            name = f"chaos-{report.store}-{report.seed}.txt"
            (Path(kept) / name).write_text("\n".join((*report.lines(), "")))
            # Long, and of use where something is wrong: kept apart from the results.
            story = os.environ.get("KLAMM_CHAOS_STORIES")
            if story:
                (Path(story) / name).write_text("\n".join((*report.stories, "")))
        _REPORTS.append(report)
        return report

    return tell


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in _REPORTS:
        terminalreporter.section(f"chaos on {report.store}")
        for line in report.lines():
            terminalreporter.write_line(line)
