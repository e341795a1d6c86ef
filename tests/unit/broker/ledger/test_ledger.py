"""The ledger keeps what was decided, across restarts and within bounds."""

import json
import uuid
from pathlib import Path

import pytest

from klamm.broker.ledger.ledger import FILES_MAX, Ledger, LedgerLine, LinePlace, is_entry
from klamm.controller.effects import Transition
from klamm.controller.states import EDITION
from klamm.model.names import KLAMM_LEDGER, BrokerId


def move(topic: str, number: int = 0) -> Transition:
    return Transition(f"{topic}-{number}", topic, "New", "Online", 'a "reason" \u2026')


def test_entries_are_read_back_by_topic_in_order(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger", BrokerId(7))
    ledger.append(3, "TopicsChanged", [move("T"), move("U")], time_ms=5)
    ledger.append(3, "BrokersChanged", [move("T", 1)], time_ms=6)
    ledger.sync()
    assert list(ledger.read("T")) == [
        {
            "time_ms": 5,
            "controller_epoch": 3,
            "sequence": 1,
            "controller_id": 7,
            "cause": "TopicsChanged",
            "topic": "T",
            "topic_id": None,
            "subject": "T-0",
            "before": "New",
            "after": "Online",
            "why": 'a "reason" \u2026',
        },
        {
            "time_ms": 6,
            "controller_epoch": 3,
            "sequence": 3,
            "controller_id": 7,
            "cause": "BrokersChanged",
            "topic": "T",
            "topic_id": None,
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
        ledger = Ledger(tmp_path, BrokerId(7))
        ledger.append(epoch, "TermBegan", [move("T")], time_ms=epoch)
        ledger.close()
    assert [
        (e["controller_epoch"], e["sequence"]) for e in Ledger(tmp_path, BrokerId(7)).read()
    ] == [
        (1, 1),
        (2, 1),
    ]
    assert len(list(tmp_path.iterdir())) == 1


def test_a_line_that_a_crash_cut_short_is_skipped(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, BrokerId(7))
    ledger.append(1, "TermBegan", [move("T"), move("T", 1)], time_ms=1)
    ledger.close()
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-20])
    ledger.append(1, "RetryDue", [move("T", 2)], time_ms=2)
    ledger.close()
    assert [e["subject"] for e in ledger.read("T")] == ["T-0", "T-2"]


def test_the_oldest_files_go_when_there_are_too_many(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, BrokerId(7), file_bytes_max=450)
    for number in range(30):
        ledger.append(1, "RetryDue", [move("T", number)], time_ms=number)
    ledger.close()
    assert len(list(tmp_path.iterdir())) == FILES_MAX
    kept = [entry["time_ms"] for entry in ledger.read()]
    assert kept == list(range(30 - len(kept), 30))
    assert all(path.stat().st_size <= 450 for path in tmp_path.iterdir())


def _subjects(lines: list[LedgerLine]) -> list[str]:
    return [line.subject for line in lines]


@pytest.mark.parametrize("words", ["plain", 'a "quote" and a \\', "ein Gerät\n", "\x00", ""])
def test_a_line_is_known_by_what_its_entry_says(tmp_path: Path, words: str) -> None:
    """Whatever stands in it: the words of a policy or of a disk come from outside."""
    ledger = Ledger(tmp_path, BrokerId(7))
    written = Transition(
        f"s {words}", f"t {words}", f"b {words}", f"a {words}", words, uuid.uuid4()
    )
    ledger.append(3, words, [written, move("T", 1)], time_ms=5)
    ledger.close()
    lines, _ = ledger.read_from(LinePlace(), 10_000)
    assert [line.entry for line in lines] == list(ledger.read())
    assert [line[:6] for line in lines] == [
        (5, 3, 1, written.topic, written.subject, written.after),
        (5, 3, 2, "T", "T-1", move("T", 1).after),
    ]


def test_lines_are_read_on_from_any_place(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, BrokerId(7), file_bytes_max=450)
    for number in range(6):
        ledger.append(1, "RetryDue", [move("T", number)], time_ms=number)
    assert len(list(tmp_path.iterdir())) > 1
    found: list[str] = []
    lines, place = ledger.read_from(LinePlace(), 250)
    while lines:
        assert all(line.text.endswith(b"}") for line in lines)
        found += _subjects(lines)
        lines, place = ledger.read_from(place, 250)
    assert found == [f"T-{number}" for number in range(6)]
    ledger.append(1, "RetryDue", [move("T", 6)], time_ms=6)
    assert _subjects(ledger.read_from(place, 250)[0]) == ["T-6"]
    ledger.close()


def test_a_line_that_is_being_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, BrokerId(7))
    ledger.append(1, "RetryDue", [move("T", 0)], time_ms=1)
    ledger.append(1, "RetryDue", [move("T", 1)], time_ms=1)
    ledger.close()
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    lines, place = ledger.read_from(LinePlace(), 10_000)
    assert _subjects(lines) == ["T-0"]
    assert ledger.read_from(place, 10_000) == ([], place)
    path.write_bytes(whole)
    assert _subjects(ledger.read_from(place, 10_000)[0]) == ["T-1"]


def test_the_topic_of_the_ledger_is_no_news(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, BrokerId(7))
    heard: list[int] = []
    ledger.on_news = lambda: heard.append(1)
    ledger.append(1, "TopicsChanged", [move(KLAMM_LEDGER)], time_ms=1)
    assert heard == []
    ledger.append(1, "TopicsChanged", [move(KLAMM_LEDGER), move("T")], time_ms=1)
    assert heard == [1]
    ledger.close()


def test_the_first_line_of_a_term_names_the_edition(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, BrokerId(7))
    opening = Transition("controller 7", "", "standby", "active", "epoch 3")
    for epoch in (3, 4):
        ledger.append(epoch, "TermBegan", [opening, move("T"), opening], time_ms=5)
        ledger.append(epoch, "TopicsChanged", [opening], time_ms=6)
    ledger.close()
    entries = list(ledger.read())
    assert [e["sequence"] for e in entries if e.get("edition") == EDITION] == [1, 1]
    lines, _ = ledger.read_from(LinePlace(), 1 << 20)
    assert [line.entry for line in lines] == entries
    assert [line.subject for line in lines[:2]] == ["controller 7", "T-0"]


def test_lines_are_passed_on_as_they_were_written(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, BrokerId(7))
    ledger.append(1, "TopicsChanged", [move("T"), move("U"), move("T", 1)], time_ms=5)
    lines = list(ledger.read_lines("T"))
    assert [json.loads(line) for line in lines] == list(ledger.read("T"))
    assert all(map(is_entry, lines))
    assert not is_entry(lines[0][:-5])
    assert len(list(ledger.read_lines())) == 3
    ledger.close()


def test_lines_of_the_term_are_at_hand_for_whoever_follows(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, BrokerId(1))
    heard: list[tuple[int, int]] = []
    unfollow = ledger.follow(lambda: heard.append(ledger.place))
    ledger.append(5, "TopicsChanged", [move("a"), move("b")], time_ms=1)
    assert heard == [(5, 2)]
    after = [json.loads(line)["subject"] for line in ledger.since(1, 10) or ()]
    assert after == [move("b").subject]
    assert ledger.since(2, 10) == []
    assert ledger.since(3, 10) is None, "a number that this term has not reached"
    unfollow()
    ledger.append(6, "TermBegan", [move("c")], time_ms=2)
    assert heard == [(5, 2)]
    assert ledger.place == (6, 1)
    assert len(ledger.since(0, 10) or ()) == 1, "lines of an earlier term are not among them"
    ledger.close()
