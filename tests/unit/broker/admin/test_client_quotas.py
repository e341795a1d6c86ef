"""Quotas as clients name, filter and change them."""

from __future__ import annotations

import pytest

from klamm.broker.admin.client_quotas import (
    Component,
    MatchType,
    altered,
    entity_of,
    filter_fault,
    matches,
    stored_entity,
)
from klamm.model.errors import ErrorCode, Refused
from klamm.store.layout import ConfigEntity, ConfigKind

USER = ConfigEntity(ConfigKind.USER, "u")
EXACT, DEFAULT, ANY = MatchType


@pytest.mark.parametrize(
    ("parts", "stored"),
    [
        ([("user", "u")], USER),
        ([("user", None)], ConfigEntity(ConfigKind.USER, None)),
        ([("client-id", "c")], ConfigEntity(ConfigKind.CLIENT, "c")),
        ([("client-id", "c"), ("user", "u")], ConfigEntity(ConfigKind.CLIENT, "c", USER)),
        ([("ip", "1.2.3.4")], ConfigEntity(ConfigKind.IP, "1.2.3.4")),
    ],
)
def test_an_entity_is_kept_where_kafka_keeps_it(
    parts: list[tuple[str, str | None]], stored: ConfigEntity
) -> None:
    assert stored_entity(parts) == stored
    assert entity_of(stored) == dict(parts)


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ([], ErrorCode.INVALID_REQUEST),
        ([("user", "u"), ("user", "v")], ErrorCode.INVALID_REQUEST),
        ([("user", "")], ErrorCode.INVALID_REQUEST),
        ([("", "x")], ErrorCode.INVALID_REQUEST),
        ([("planet", "x")], ErrorCode.UNSUPPORTED_VERSION),
        ([("ip", "1.2.3.4"), ("user", "u")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_no_entity_is_refused(parts: list[tuple[str, str | None]], code: ErrorCode) -> None:
    refused = stored_entity(parts)
    assert isinstance(refused, Refused)
    assert refused.code is code


ENTITIES: list[dict[str, str | None]] = [
    {"user": "u"},
    {"user": None},
    {"user": "u", "client-id": "c"},
    {"client-id": "c"},
    {"ip": "i"},
]


@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ([], False, [0, 1, 2, 3, 4]),
        ([], True, []),
        ([Component("user", EXACT, "u")], False, [0, 2]),
        ([Component("user", EXACT, "u")], True, [0]),
        ([Component("user", DEFAULT, None)], False, [1]),
        ([Component("user", ANY, None)], True, [0, 1]),
        ([Component("user", ANY, None), Component("client-id", EXACT, "c")], True, [2]),
        ([Component("ip", ANY, None)], False, [4]),
        ([Component("ip", ANY, "passed over")], False, [4]),
    ],
)
def test_a_filter_finds(components: list[Component], strict: bool, found: list[int]) -> None:
    assert filter_fault(components) is None
    assert [n for n, entity in enumerate(ENTITIES) if matches(components, strict, entity)] == found


@pytest.mark.parametrize(
    "components",
    [
        [Component("user", ANY, None), Component("user", DEFAULT, None)],
        [Component("user", 7, None)],
        [Component("user", EXACT, None)],
        [Component("planet", ANY, None)],
        [Component("ip", ANY, None), Component("user", ANY, None)],
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(components: list[Component]) -> None:
    assert filter_fault(components) is not None


def test_quotas_are_set_and_taken_back() -> None:
    stored = {"producer_byte_rate": "1", "consumer_byte_rate": "2"}
    ops = [("producer_byte_rate", None), ("consumer_byte_rate", 3.0), ("request_percentage", 1.5)]
    assert altered(stored, USER, ops) == {"consumer_byte_rate": "3", "request_percentage": "1.5"}


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        (USER, "bytes", 1.0),
        (USER, "connection_creation_rate", 1.0),
        (ConfigEntity(ConfigKind.IP, "i"), "producer_byte_rate", 1.0),
        (USER, "producer_byte_rate", 1.5),
        (USER, "producer_byte_rate", 0.0),
        (USER, "request_percentage", -1.0),
        (USER, "request_percentage", float("nan")),
    ],
)
def test_quotas_that_cannot_be_are_refused(entity: ConfigEntity, key: str, value: float) -> None:
    assert isinstance(altered({}, entity, [(key, value)]), Refused)
