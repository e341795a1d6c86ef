"""What all tests share: with KLAMM_RECORD_CLIENTS set, who used which API is written down."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


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
