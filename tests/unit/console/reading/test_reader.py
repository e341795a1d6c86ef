"""The reader's picture when answers cross."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("starlette", reason="the console is not installed: klamm[console]")

from klamm.console.reading import asking
from klamm.console.reading.folding import Judge
from klamm.console.reading.reader import Reader


async def test_a_look_that_began_before_the_news_does_not_undo_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader = Reader("127.0.0.1:1", None)
    reader._judge = Judge([])

    def status() -> dict[str, Any]:
        return {"brokers": [{"id": 3, "presence": "up", "since_ms": None}]}

    async def late(_: Any) -> dict[str, Any]:
        found = status()
        line = {"controller_epoch": 1, "sequence": 7, "topic": "", "time_ms": 5, "why": ""}
        reader._take(line | {"subject": "broker 3", "before": "live", "after": "gone", "cause": ""})
        return found

    async def nothing(_: Any) -> list[Any]:
        return []

    monkeypatch.setattr(asking, "status", late)
    monkeypatch.setattr(asking, "explanations", nothing)
    await reader._ask_status()
    assert reader.picture.brokers == [{"id": 3, "presence": "down", "since_ms": 5}]

    async def current(_: Any) -> dict[str, Any]:
        return status()

    monkeypatch.setattr(asking, "status", current)
    await reader._ask_status()
    assert reader.picture.brokers == status()["brokers"]
