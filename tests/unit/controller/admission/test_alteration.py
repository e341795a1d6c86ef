"""What requests to alter settings make of those that are stored."""

from __future__ import annotations

import pytest

from klamm.controller.admission.alteration import Change, altered, replaced
from klamm.model.alterations import SettingOperation
from klamm.model.errors import ErrorCode, Refused
from klamm.model.settings import TOPIC_SETTINGS, BrokerSettings

DEFAULTS = BrokerSettings.parse({}).for_topic({})
SET, DELETE, APPEND, SUBTRACT = SettingOperation


def alter(stored: dict[str, str], *changes: Change) -> dict[str, str] | Refused:
    return altered(stored, changes, TOPIC_SETTINGS, DEFAULTS.text)


@pytest.mark.parametrize(
    ("stored", "change", "expected"),
    [
        ({}, Change("retention.ms", "1"), {"retention.ms": "1"}),
        ({"retention.ms": "1", "flush.ms": "2"}, Change("retention.ms", "3"), None),
        ({"retention.ms": "1"}, Change("retention.ms", None, DELETE), {}),
        ({}, Change("retention.ms", None, DELETE), {}),
        ({}, Change("cleanup.policy", "compact", APPEND), {"cleanup.policy": "delete,compact"}),
        ({}, Change("cleanup.policy", "delete", APPEND), {"cleanup.policy": "delete"}),
        ({"cleanup.policy": ""}, Change("cleanup.policy", "compact", APPEND), None),
        ({}, Change("cleanup.policy", "delete", SUBTRACT), {"cleanup.policy": ""}),
        (
            {"leader.replication.throttled.replicas": "0:1,1:1,0:1"},
            Change("leader.replication.throttled.replicas", "0:1,9:9", SUBTRACT),
            {"leader.replication.throttled.replicas": "1:1,0:1"},
        ),
    ],
)
def test_one_operation_changes_one_setting(
    stored: dict[str, str], change: Change, expected: dict[str, str] | None
) -> None:
    if expected is None:
        expected = {**stored, change.name: change.value or ""}
    assert alter(stored, change) == expected


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        (
            [Change("a", "1"), Change("a", None, DELETE)],
            42,
            "Error due to duplicate config keys: a",
        ),
        ([Change("a", None)], 42, "Null value not supported for : a"),
        ([Change("a", None, APPEND)], 42, "Null value not supported for : a"),
        ([Change("a", "1", 9)], 42, "Unknown operations type 9 for a"),
        ([Change("retention.ms", "1", APPEND)], 40, "is not allowed for config key: retention.ms"),
        (
            [Change("retention.ms", "1", SUBTRACT)],
            40,
            "is not allowed for config key: retention.ms",
        ),
        ([Change("zzz", "1", APPEND)], -1, "Unknown config name: zzz"),
    ],
)
def test_what_cannot_be_done_is_refused(changes: list[Change], code: int, words: str) -> None:
    refused = alter({}, *changes)
    assert isinstance(refused, Refused)
    assert refused.code == code
    assert words in refused.why


def test_replacing_leaves_nothing_of_what_was() -> None:
    assert replaced([Change("flush.ms", "1")]) == {"flush.ms": "1"}
    assert replaced([]) == {}
    twice = replaced([Change("a", "1"), Change("a", "2")])
    assert isinstance(twice, Refused)
    assert twice.code is ErrorCode.INVALID_REQUEST
