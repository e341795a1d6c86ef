"""The ledger keeps what was decided, across restarts and within bounds."""

from pathlib import Path

from klamm.broker.ledger import FILES_MAX, Ledger
from klamm.controller.effects import Move


def move(topic: str, number: int = 0) -> Move:
    return Move(f"{topic}-{number}", topic, "New", "Online", 'a "reason" \u2026')


def test_entries_are_read_back_by_topic_in_order(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.append(3, "TopicsChanged", [move("T"), move("U")], time_ms=5)
    ledger.append(3, "BrokersChanged", [move("T", 1)], time_ms=6)
    ledger.sync()
    assert list(ledger.read("T")) == [
        {
            "time_ms": 5,
            "controller_epoch": 3,
            "sequence": 1,
            "cause": "TopicsChanged",
            "topic": "T",
            "subject": "T-0",
            "before": "New",
            "after": "Online",
            "why": 'a "reason" \u2026',
        },
        {
            "time_ms": 6,
            "controller_epoch": 3,
            "sequence": 3,
            "cause": "BrokersChanged",
            "topic": "T",
            "subject": "T-1",
            "before": "New",
            "after": "Online",
            "why": 'a "reason" \u2026',
        },
    ]
    assert len(list(ledger.read())) == 3
    ledger.close()


def test_a_restart_goes_on_in_the_same_file_and_a_new_term_counts_anew(tmp_path: Path) -> None:
    for epoch in (1, 2):
        ledger = Ledger(tmp_path)
        ledger.append(epoch, "TermBegan", [move("T")], time_ms=epoch)
        ledger.close()
    assert [(e["controller_epoch"], e["sequence"]) for e in Ledger(tmp_path).read()] == [
        (1, 1),
        (2, 1),
    ]
    assert len(list(tmp_path.iterdir())) == 1


def test_a_line_that_a_crash_cut_short_is_skipped(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.append(1, "TermBegan", [move("T"), move("T", 1)], time_ms=1)
    ledger.close()
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-20])
    ledger.append(1, "RetryDue", [move("T", 2)], time_ms=2)
    ledger.close()
    assert [e["subject"] for e in ledger.read("T")] == ["T-0", "T-2"]


def test_the_oldest_files_go_when_there_are_too_many(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, file_bytes_max=300)
    for number in range(30):
        ledger.append(1, "RetryDue", [move("T", number)], time_ms=number)
    ledger.close()
    assert len(list(tmp_path.iterdir())) == FILES_MAX
    kept = [entry["time_ms"] for entry in ledger.read()]
    assert kept == list(range(30 - len(kept), 30))
    assert all(path.stat().st_size <= 300 for path in tmp_path.iterdir())
