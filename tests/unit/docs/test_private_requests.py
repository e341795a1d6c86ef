"""The page on hardening tells of every private request, and who may make it."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.broker import api
from klamm.protocol.private import PrivateKey

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "hardening.md"


@pytest.mark.parametrize("key", PrivateKey)
def test_a_private_request_is_where_it_belongs(key: PrivateKey) -> None:
    before, _, after = PAGE.read_text().partition("**Private requests for everybody**")
    rows = after.partition("**A controller's epoch")[0].splitlines()
    handler = api.handler(key)
    assert handler is not None
    name = key.name.title().replace("_", "")
    if handler.brokers_only:
        assert f"{name} (private, {int(key)})" in before
    else:
        assert any(f"{name} {int(key)}" in row for row in rows if row.startswith("|"))
