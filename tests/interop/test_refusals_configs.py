"""Settings over the wire: every refusal, and changes that take effect while brokers run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from interop.wire import BROKER, TOPIC, Change, Wire, check, codes, topic
from klamm import Cluster
from klamm.broker.admin.policies import Alteration
from klamm.model.errors import ErrorCode as E
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import alter_configs, describe_configs, incremental_alter_configs

LOGGER = 8
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with Cluster(3) as cluster:
        wire = Wire(cluster)
        assert codes(wire.create(topic("t", 1, 3))) == [E.NONE]
        yield wire


def replace(wire: Wire, kind: int, name: str, **configs: str | None) -> Any:
    """The answer of AlterConfigs for one resource."""
    resource = alter_configs.AlterConfigsResource(
        kind,
        name,
        [alter_configs.AlterableConfig(k.replace("_", "."), v) for k, v in configs.items()],
    )
    response = wire.ask(ApiKey.ALTER_CONFIGS, 2, alter_configs.Request([resource]))
    return response.responses[0]


def describe(wire: Wire, kind: int, name: str, *keys: str, version: int = 4, **where: Any) -> Any:
    """The answer of DescribeConfigs for one resource."""
    resource = describe_configs.DescribeConfigsResource(kind, name, list(keys) or None)
    request = describe_configs.Request([resource], include_synonyms=True)
    response = wire.ask(ApiKey.DESCRIBE_CONFIGS, version, request, **where)
    return response.results[0]


def value(wire: Wire, kind: int, name: str, key: str, **where: Any) -> tuple[str | None, int]:
    result = describe(wire, kind, name, key, **where)
    check(result, E.NONE, None)
    (config,) = result.configs
    return config.value, config.config_source


REFUSED = [
    (TOPIC, "", [("flush.ms", SET, "1")], E.INVALID_REQUEST, "must be named"),
    (TOPIC, "a b", [("flush.ms", SET, "1")], E.INVALID_TOPIC_EXCEPTION, "characters other than"),
    (TOPIC, "u", [("flush.ms", SET, "1")], E.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic u"),
    (TOPIC, "t", [("flush.msx", SET, "1")], E.INVALID_CONFIG, "did you mean flush.ms?"),
    (TOPIC, "t", [("flush.ms", SET, "x")], E.INVALID_CONFIG, "must be a whole number"),
    (TOPIC, "t", [("flush.ms", SET, "-1")], E.INVALID_CONFIG, "must be at least 0"),
    (TOPIC, "t", [("flush.ms", SET, None)], E.INVALID_REQUEST, "without a value: flush.ms"),
    (TOPIC, "t", [("flush.ms", 7, "1")], E.INVALID_REQUEST, "unknown operation on flush.ms"),
    (TOPIC, "t", [("flush.ms", APPEND, "1")], E.INVALID_CONFIG, "flush.ms is not a list"),
    (TOPIC, "t", [("flush.ms", SUBTRACT, "1")], E.INVALID_CONFIG, "flush.ms is not a list"),
    (TOPIC, "t", [("zzz", APPEND, "1")], E.UNKNOWN_SERVER_ERROR, "zzz is not a setting"),
    (TOPIC, "t", [("cleanup.policy", APPEND, "x")], E.INVALID_CONFIG, "not 'x'"),
    (
        TOPIC,
        "t",
        [("flush.ms", SET, "1"), ("flush.ms", DELETE, None)],
        E.INVALID_REQUEST,
        "more than once: flush.ms",
    ),
    (BROKER, "", [("num.partitions", SET, "2")], E.INVALID_REQUEST, "cannot be changed while"),
    (BROKER, "", [("num.partitionsx", SET, "2")], E.INVALID_CONFIG, "did you mean"),
    (BROKER, "", [("log.retention.ms", SET, "0")], E.INVALID_CONFIG, "must not be 0"),
    (BROKER, "77", [("log.retention.ms", SET, "1")], E.INVALID_REQUEST, "cannot speak for"),
    (LOGGER, "77", [("klamm", SET, "INFO")], E.INVALID_REQUEST, "the loggers of '77'"),
    (99, "x", [("klamm", SET, "INFO")], E.INVALID_REQUEST, "type 99"),
]


@pytest.mark.parametrize("validate_only", [True, False])
@pytest.mark.parametrize(
    ("kind", "name", "changes", "code", "words"),
    REFUSED,
    ids=[f"{c.name}-{w[:20]}" for _, _, _, c, w in REFUSED],
)
def test_changes_are_refused(
    wire: Wire,
    kind: int,
    name: str,
    changes: list[Change],
    code: E,
    words: str,
    validate_only: bool,
) -> None:
    check(wire.alter(kind, name, *changes, validate_only=validate_only), code, words)


def test_replacements_are_refused(wire: Wire) -> None:
    check(replace(wire, TOPIC, "t", flush_ms=None), E.INVALID_REQUEST, "without a value")
    check(replace(wire, TOPIC, "t", flush_msx="1"), E.INVALID_CONFIG, "did you mean")
    check(replace(wire, TOPIC, "u"), E.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic u")
    check(replace(wire, BROKER, "", num_partitions="1"), E.INVALID_REQUEST, "cannot be changed")


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "a b", E.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "u", E.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "77", E.INVALID_REQUEST),
        (LOGGER, "", E.INVALID_REQUEST),
        (99, "x", E.INVALID_REQUEST),
    ],
)
def test_questions_are_refused(wire: Wire, kind: int, name: str, code: E) -> None:
    for version in range(1, 5):
        result = describe(wire, kind, name, version=version)
        assert E(result.error_code) is code
        assert result.error_message
        assert result.configs == []


def test_a_resource_given_twice_is_refused_both_times(wire: Wire) -> None:
    configs = [incremental_alter_configs.AlterableConfig("flush.ms", SET, "1")]
    twice = [incremental_alter_configs.AlterConfigsResource(TOPIC, "t", configs)] * 2
    request = incremental_alter_configs.Request(twice)
    response = wire.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
    assert codes(response.responses) == [E.INVALID_REQUEST, E.INVALID_REQUEST]


def test_any_broker_alters_a_topic_and_any_broker_shows_it(wire: Wire) -> None:
    check(wire.alter(TOPIC, "t", ("flush.ms", SET, "5"), broker=0), E.NONE, None)
    assert value(wire, TOPIC, "t", "flush.ms", broker=1) == ("5", 1)
    check(wire.alter(TOPIC, "t", ("flush.ms", DELETE, None), broker=2), E.NONE, None)
    assert value(wire, TOPIC, "t", "flush.ms", broker=1) == (str(2**63 - 1), 5)


def test_lists_are_edited_and_may_become_empty(wire: Wire) -> None:
    check(wire.alter(TOPIC, "t", ("cleanup.policy", APPEND, "compact")), E.NONE, None)
    assert value(wire, TOPIC, "t", "cleanup.policy") == ("delete,compact", 1)
    change = ("cleanup.policy", SUBTRACT, "compact,delete")
    check(wire.alter(TOPIC, "t", change), E.NONE, None)
    assert value(wire, TOPIC, "t", "cleanup.policy") == ("", 1)
    check(replace(wire, TOPIC, "t"), E.NONE, None)
    assert value(wire, TOPIC, "t", "cleanup.policy") == ("delete", 5)


def test_settings_of_all_brokers_lie_under_those_of_one(wire: Wire) -> None:
    key = "log.retention.ms"
    check(wire.alter(BROKER, "", (key, SET, "1000"), broker=1), E.NONE, None)
    check(wire.alter(BROKER, "2", (key, SET, "2000"), broker=2), E.NONE, None)
    assert value(wire, BROKER, "0", key, broker=0) == ("1000", 3)
    assert value(wire, BROKER, "2", key, broker=2) == ("2000", 2)
    assert value(wire, BROKER, "", key, broker=0) == ("1000", 3)
    wire.settle()
    result = describe(wire, TOPIC, "t", "retention.ms", broker=2)
    assert [(s.name, s.value, s.source) for s in result.configs[0].synonyms] == [
        ("log.retention.ms", "2000", 2),
        ("log.retention.ms", "1000", 3),
        ("log.retention.hours", "168", 5),
    ]


def test_a_broker_knows_its_own_number(wire: Wire) -> None:
    for broker in wire.cluster.running:
        assert value(wire, BROKER, str(broker), "broker.id", broker=broker) == (str(broker), 4)


def test_a_changed_setting_is_in_force_on_every_replica(wire: Wire) -> None:
    check(wire.alter(TOPIC, "t", ("segment.bytes", SET, "4711")), E.NONE, None)
    wire.settle()
    for broker in wire.cluster._app.brokers.values():
        (partition,) = broker.parts.replicas.partitions.values()
        assert partition.log is not None
        assert partition.log.settings.segment_bytes == 4711


def cautious(alteration: Alteration) -> str | None:
    return "flush.ms stays" if "flush.ms" in alteration.configs else None


def test_a_policy_refuses_with_its_own_words() -> None:
    with Cluster(1, **{"alter.config.policy.class.name": f"{__name__}:cautious"}) as cluster:
        wire = Wire(cluster)
        assert codes(wire.create(topic("t"))) == [E.NONE]
        check(wire.alter(TOPIC, "t", ("flush.ms", SET, "1")), E.POLICY_VIOLATION, "flush.ms stays")
        check(wire.alter(TOPIC, "t", ("retention.ms", SET, "1")), E.NONE, None)
