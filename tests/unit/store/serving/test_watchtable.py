"""How much a server of the store keeps in mind for those who look into it."""

from __future__ import annotations

import pytest

from klamm.store.serving import watchtable
from klamm.store.serving.watchtable import Register, TooManyWatches, WatchTable
from klamm.store.tree import DATA_CHANGED, Event


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> WatchTable[str]:
    monkeypatch.setattr(watchtable, "STRANGERS_BYTES_MAX", 10_000)
    return WatchTable(lambda who: who.startswith("stranger"))


def fill(table: WatchTable[str], who: str, count: int = 1000) -> int:
    for number in range(count):
        try:
            table.add(who, Register.DATA, f"/{who}/{number}")
        except TooManyWatches:
            return number
    return count


def test_strangers_share_one_bound(table: WatchTable[str]) -> None:
    first = fill(table, "stranger-1")
    assert 20 < first < 40
    assert fill(table, "stranger-2") == 0
    assert fill(table, "broker") == 1000
    table.remove_connection("stranger-1")
    assert fill(table, "stranger-2") == first


def test_what_has_fired_or_was_taken_off_counts_no_more(table: WatchTable[str]) -> None:
    count = fill(table, "stranger-1")
    assert table.remove("stranger-1", 2, "/stranger-1/0")
    event = Event(DATA_CHANGED, "/stranger-1/1", (), ())
    assert [told.connection for told in table.trigger(event)] == ["stranger-1"]
    assert fill(table, "stranger-2", 2) == 2
    assert fill(table, "stranger-3") == 0
    assert table.count == count


def test_one_that_shows_who_it_is_gives_back_no_more_than_it_took() -> None:
    strangers = {"a"}
    table: WatchTable[str] = WatchTable(lambda who: who in strangers)
    table.add("a", Register.DATA, "/x")
    strangers.clear()
    fill(table, "a", 100)
    for number in range(100):
        assert table.remove("a", 2, f"/a/{number}")
    table.remove_connection("a")
    strangers.add("b")
    table.add("b", Register.DATA, "/y")
    table.remove_connection("b")
    assert table.count == 0
