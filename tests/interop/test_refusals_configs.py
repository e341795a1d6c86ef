"""Settings over the wire: every refusal, and changes that take effect while brokers run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from interop.wire import BROKER, TOPIC, Change, Wire, check, codes, topic
from klamm import Cluster
from klamm.broker.admin.policies import Alteration
from klamm.model.errors import ErrorCode as E
from klamm.model.settings import BROKER_SETTINGS, UNTOLD
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
    (
        TOPIC,
        "",
        [("flush.ms", SET, "1")],
        E.INVALID_REQUEST,
        "Default topic resources are not allowed.",
    ),
    (TOPIC, "a b", [("flush.ms", SET, "1")], E.INVALID_TOPIC_EXCEPTION, "characters other than"),
    (
        TOPIC,
        "u",
        [("flush.ms", SET, "1")],
        E.UNKNOWN_TOPIC_OR_PARTITION,
        "The topic 'u' does not exist.",
    ),
    (
        TOPIC,
        "t",
        [("flush.msx", SET, "1")],
        E.INVALID_CONFIG,
        "Unknown topic config name: flush.msx",
    ),
    (
        TOPIC,
        "t",
        [("flush.ms", SET, "x")],
        E.INVALID_CONFIG,
        "Invalid config value for resource ConfigResource(type=TOPIC, name='t'): "
        "Invalid value x for configuration flush.ms: Not a number of type LONG",
    ),
    (99, "t", [("flush.ms", SET, "1")], E.INVALID_REQUEST, "Unknown resource type 99"),
    (
        TOPIC,
        "t",
        [("flush.ms", SET, "-1")],
        E.INVALID_CONFIG,
        "Invalid value -1 for configuration flush.ms: Value must be at least 0",
    ),
    (
        TOPIC,
        "t",
        [("flush.ms", SET, None)],
        E.INVALID_REQUEST,
        "Null value not supported for : flush.ms",
    ),
    (TOPIC, "t", [("flush.ms", 7, "1")], E.INVALID_REQUEST, "Unknown operations type 7"),
    (
        TOPIC,
        "t",
        [("flush.ms", APPEND, "1")],
        E.INVALID_CONFIG,
        "Config value append is not allowed for config key: flush.ms",
    ),
    (
        TOPIC,
        "t",
        [("flush.ms", SUBTRACT, "1")],
        E.INVALID_CONFIG,
        "Config value subtract is not allowed for config key: flush.ms",
    ),
    (TOPIC, "t", [("zzz", APPEND, "1")], E.UNKNOWN_SERVER_ERROR, "Unknown config name: zzz"),
    (TOPIC, "t", [("cleanup.policy", APPEND, "x")], E.INVALID_CONFIG, "not 'x'"),
    (
        TOPIC,
        "t",
        [("flush.ms", SET, "1"), ("flush.ms", DELETE, None)],
        E.INVALID_REQUEST,
        "Error due to duplicate config keys",
    ),
    (
        BROKER,
        "",
        [("num.partitions", SET, "2")],
        E.INVALID_REQUEST,
        "Cannot update these configs dynamically: Set(num.partitions)",
    ),
    (
        BROKER,
        "",
        [("listener.name.plain.ssl.keystore.location", SET, "/x")],
        E.INVALID_CONFIG,
        "broker id must be specified: {listener.name.plain.ssl.keystore.location}",
    ),
    (
        BROKER,
        "",
        [("sasl.enabled.mechanisms", SET, "PLAIN")],
        E.INVALID_CONFIG,
        "broker id must be specified: {sasl.enabled.mechanisms}",
    ),
    (BROKER, "", [("plug.in", SET, "x" * 70_000)], E.INVALID_CONFIG, "none of klamm's"),
    (BROKER, "", [("log.retention.ms", SET, "0")], E.INVALID_CONFIG, "must not be 0"),
    (
        BROKER,
        "77",
        [("log.retention.ms", SET, "1")],
        E.INVALID_REQUEST,
        "Unexpected broker id, expected ",
    ),
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
    check(
        replace(wire, TOPIC, "t", flush_ms=None),
        E.INVALID_REQUEST,
        "Null value not supported for : flush.ms",
    )
    check(replace(wire, TOPIC, "t", flush_msx="1"), E.INVALID_CONFIG, "did you mean")
    check(replace(wire, TOPIC, "u"), E.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'u' does not exist.")
    check(
        replace(wire, BROKER, "", num_partitions="1"),
        E.INVALID_REQUEST,
        "Cannot update these configs dynamically: Set(num.partitions)",
    )


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


@pytest.mark.one_process
@pytest.mark.parametrize("name", ["", "0"])
def test_a_broker_stores_settings_of_plug_ins_and_shows_them_without_value(
    wire: Wire, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    custom = ("com.acme.flavour", "cleanup.policy", "ssl.keystore.lokation")
    source = 2 if name else 3
    with caplog.at_level("WARNING"):
        changes = [(each, SET, "v") for each in custom]
        check(wire.alter(BROKER, name, *changes, broker=0), E.NONE, None)
        wire.settle()
    found = describe(wire, BROKER, name, *custom, broker=0)
    shown = [(c.name, c.value, c.config_source, c.is_sensitive, c.read_only) for c in found.configs]
    assert sorted(shown) == sorted((each, None, source, True, True) for each in custom)
    if not name:  # each is told of once
        told = [r.getMessage() for r in caplog.records]
        assert "com.acme.flavour is no setting of klamm and has no effect." in told
        assert any("log.cleanup.policy?" in each for each in told)
        assert any("ssl.keystore.lokation" in each and "PROTECTS NOTHING" in each for each in told)
    undo = [(each, DELETE, None) for each in custom]
    check(wire.alter(BROKER, name, *undo, broker=0), E.NONE, None)
    assert describe(wire, BROKER, name, *custom, broker=0).configs == []
    assert value(wire, TOPIC, "t", "cleanup.policy")[0] == "delete"


def test_a_broker_tells_of_the_settings_that_kafka_has_and_of_klamms_own(wire: Wire) -> None:
    names = {c.name for c in describe(wire, BROKER, "0", broker=0).configs}
    assert names == BROKER_SETTINGS.keys() - UNTOLD
    assert {"log.retention.ms", "klamm.metrics.port"} <= names
    assert not {"unstable.api.versions.enable", "log.initial.task.delay.ms"} & names


def test_the_tuning_of_logins_that_nobody_makes_is_taken(wire: Wire) -> None:
    name = "sasl.login.refresh.window.factor"
    check(wire.alter(BROKER, "0", (name, SET, "0.7"), broker=0), E.NONE, None)
    check(wire.alter(BROKER, "0", (name, DELETE, None), broker=0), E.NONE, None)


def test_a_replacement_may_have_settings_of_plug_ins(wire: Wire) -> None:
    check(replace(wire, BROKER, "", com_acme_flavour="v", log_retention_ms="5"), E.NONE, None)
    check(replace(wire, BROKER, ""), E.NONE, None)


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
