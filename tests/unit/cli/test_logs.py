"""Fields of a record are part of its line."""

from __future__ import annotations

import json
import logging

from klamm.cli.logs import _Json, _Text


def record(**fields: object) -> logging.LogRecord:
    made = logging.makeLogRecord({"name": "klamm.x", "levelname": "INFO", "msg": "registered"})
    vars(made).update(fields)
    return made


def test_text_ends_with_the_fields() -> None:
    assert (
        _Text()
        .format(record(broker=0, epoch=12))
        .endswith("INFO klamm.x registered broker=0 epoch=12")
    )


def test_json_has_them_as_members() -> None:
    entry = json.loads(_Json().format(record(broker=0, why=OSError("full"))))
    assert (entry["message"], entry["broker"], entry["why"]) == ("registered", 0, "full")


def test_a_peers_text_forges_no_line() -> None:
    line = _Text().format(record(client="x\n00:00 INFO klamm.x granted\x1b[2J"))
    assert line.splitlines() == [line]
    assert "\x1b" not in line


def test_an_exceptions_text_is_not_taken_for_a_line_of_the_log() -> None:
    try:
        raise ValueError("bad\n2026-01-01 00:00:00,000 INFO klamm.x granted \x1b[2J")
    except ValueError as fault:
        made = record(exc_info=(ValueError, fault, fault.__traceback__))
    first, *others = _Text().format(made).splitlines()
    assert first.endswith("registered")
    assert all(line.startswith("  ") for line in others)
    assert "\x1b" not in "".join(others)


def test_json_steers_no_terminal_and_takes_any_text() -> None:
    line = _Json().format(record(client="\x9b31m\ud800\u202e"))
    assert line.isascii()
    assert json.loads(line)["client"] == "\x9b31m\ud800\u202e"
