"""Real processes under fire: a smoke of it in every test run, all of it by `make chaos`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chaos.run import Report

_REPORTS: list[Report] = []


@pytest.fixture
def told() -> Callable[[Report], Report]:
    """Have a report printed at the end."""

    def tell(report: Report) -> Report:
        _REPORTS.append(report)
        return report

    return tell


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in _REPORTS:
        terminalreporter.section(f"chaos on {report.store}")
        for line in report.lines():
            terminalreporter.write_line(line)
