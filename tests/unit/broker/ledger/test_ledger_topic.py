"""What a line of the ledger becomes in its topic, and what a broker remembers of having sent."""

from pathlib import Path

import pytest

from klamm.broker.ledger.ledger import LedgerLine, LinePlace
from klamm.broker.ledger.ledger_topic import Cursor, _load, _records, _save


def line(subject: str, after: str, epoch: int = 4, sequence: int = 1) -> LedgerLine:
    return LedgerLine(77, epoch, sequence, "T", subject, after, b'{"subject":"..."}')


def keys(*lines: LedgerLine, newest: int = 4) -> list[tuple[str, bool]]:
    """Each record's key, and whether it has a value."""
    records = list(_records(lines, newest))
    assert [record.offset for record in records] == list(range(len(records)))
    assert {record.timestamp for record in records} == {77}
    return [((r.key or b"").decode(), r.value is not None) for r in records]


def test_a_line_is_kept_under_what_moved() -> None:
    online = line("T-0 on broker 1", "Online")
    (record,) = _records([online], 4)
    assert (record.key, record.value) == (b"T-0 on broker 1", online.text)
    assert keys(line("T-0 ISR", "0,1"), line("broker 1", "gone")) == [
        ("T-0 ISR", True),
        ("broker 1", True),
    ]


@pytest.mark.parametrize(
    ("subject", "after", "ended"),
    [
        ("topic T", "absent", ["topic T"]),
        ("T-0", "NonExistent", ["T-0", "T-0 ISR", "T-0 replicas"]),
        ("T-0 on broker 1", "NonExistent", ["T-0 on broker 1"]),
        ("archive of T", "/archives/T/manifest.json", []),
        ("topic T", "halted", []),
        ("T-0", "Offline", []),
    ],
)
def test_what_ceased_to_be_is_followed_by_tombstones(
    subject: str, after: str, ended: list[str]
) -> None:
    assert keys(line(subject, after)) == [(subject, True), *((key, False) for key in ended)]


def test_a_late_line_takes_nothing_newer_away() -> None:
    late = line("topic T", "absent", epoch=3)
    assert keys(late, newest=4) == [("3 topic T", True)]


def test_a_cursor_is_remembered_and_nonsense_is_the_beginning(tmp_path: Path) -> None:
    path = tmp_path / "cursor"
    assert _load(path) == Cursor()
    cursor = Cursor(LinePlace(3, 1234), "an id", 99)
    _save(path, cursor)
    assert _load(path) == cursor
    for nonsense in (b"", b"[]", b'{"file": 1}', b'{"file": null}', b"\xff"):
        path.write_bytes(nonsense)
        assert _load(path) == Cursor()
