"""What all tests share.

Each begins with nothing written to the log; with KLAMM_RECORD_CLIENTS set, who used which API is
written down.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest

from klamm.repeats import Repeats


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-transcripts",
        action="store_true",
        help="write tests/transcripts/*.txt anew instead of comparing; review the diff",
    )


@pytest.fixture(scope="session", autouse=True)
def _record_clients() -> Iterator[None]:
    if not os.environ.get("KLAMM_RECORD_CLIENTS"):
        yield
        return
    from wire.recording import recording

    with recording():
        yield


@pytest.fixture(autouse=True)
def _no_line_is_a_repeat() -> None:
    for log in list(logging.Logger.manager.loggerDict.values()):
        for each in getattr(log, "filters", ()):
            if isinstance(each, Repeats):
                each.forget()
