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
