"""The tables of settings, and the values in force."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.model.errors import Refused, UsageError
from klamm.model.settings import (
    BROKER_SETTINGS,
    TOPIC_SETTINGS,
    BrokerSettings,
    Definition,
    Origin,
    Source,
    topic_faults,
)
from klamm.model.settings.definition import Kind

PLAIN = BrokerSettings.parse({})


def test_a_topic_without_overrides_has_the_defaults_of_the_table() -> None:
    topic = PLAIN.for_topic({})
    assert {name: topic.text(name) for name in TOPIC_SETTINGS} == {
        name: definition.default for name, definition in TOPIC_SETTINGS.items()
    }


def test_every_synonym_is_a_broker_setting() -> None:
    synonyms = {s.name for d in TOPIC_SETTINGS.values() for s in d.synonyms}
    assert synonyms <= set(BROKER_SETTINGS)


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "1"}, 60_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "1", "log.retention.ms": "1"}, 1),
        ({"log.retention.hours": "-1"}, -1),
        ({"retention.ms": "7"}, 7),
    ],
)
def test_the_finest_unit_that_is_set_gives_the_retention(
    given_text: dict[str, str], expected: int
) -> None:
    assert BrokerSettings.parse(given_text).for_topic({}).int("retention.ms") == expected


def test_a_layer_hides_those_below_it() -> None:
    started = BrokerSettings.parse({"log.retention.ms": "4"})
    cluster = started.with_overrides({"log.retention.hours": "3"})
    own = started.with_overrides({"log.retention.ms": "3"}, {"log.retention.ms": "2"})
    assert started.for_topic({}).int("retention.ms") == 4
    assert cluster.for_topic({}).int("retention.ms") == 3 * 3_600_000
    assert own.for_topic({}).int("retention.ms") == 2
    assert [s.int("log.retention.ms") for s in (started, own)] == [4, 2]
    assert own.for_topic({"retention.ms": "1"}).int("retention.ms") == 1
    assert own.for_topic({"retention.ms": "1"}).origins("retention.ms") == [
        Origin("retention.ms", "1", Source.TOPIC),
        Origin("log.retention.ms", "2", Source.DYNAMIC_BROKER),
        Origin("log.retention.ms", "3", Source.DYNAMIC_DEFAULT_BROKER),
        Origin("log.retention.ms", "4", Source.STATIC_BROKER),
        Origin("log.retention.hours", "168", Source.DEFAULT),
    ]


def test_the_source_is_that_of_the_value_in_force() -> None:
    settings = BrokerSettings.parse({"log.segment.bytes": "1000"})
    topic = settings.for_topic({"flush.messages": "1"})
    assert topic.source("segment.bytes") is Source.STATIC_BROKER
    assert topic.source("flush.messages") is Source.TOPIC
    assert topic.source("flush.ms") is Source.DEFAULT
    assert topic.source("leader.replication.throttled.replicas") is Source.DEFAULT
    assert settings.source("log.segment.bytes") is Source.STATIC_BROKER
    assert settings.source("broker.rack") is Source.DEFAULT


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("cleanup.policy", " compact , delete ", ("compact", "delete")),
        ("cleanup.policy", "", ()),
        ("preallocate", "TRUE", True),
        ("preallocate", " false ", False),
        ("retention.ms", "-1", -1),
        ("retention.bytes", "-9223372036854775808", -(2**63)),
        ("min.cleanable.dirty.ratio", "0.25", 0.25),
        ("compression.gzip.level", "-1", -1),
        ("leader.replication.throttled.replicas", "*", ("*",)),
        ("leader.replication.throttled.replicas", "0:1,11:22", ("0:1", "11:22")),
        ("leader.replication.throttled.replicas", "", ()),
    ],
)
def test_texts_are_read(name: str, text: str, value: object) -> None:
    assert TOPIC_SETTINGS[name].parse(text) == value


@pytest.mark.parametrize(
    ("overrides", "fault"),
    [
        (
            {"retention.sm": "1"},
            "Unknown topic config name: retention.sm; did you mean retention.ms?",
        ),
        ({"zzz": "1"}, "Unknown topic config name: zzz"),
        (
            {"retention.ms": "1h"},
            "Invalid value 1h for configuration retention.ms: Not a number of type LONG",
        ),
        (
            {"retention.ms": "-2"},
            "Invalid value -2 for configuration retention.ms: Value must be at least -1",
        ),
        ({"retention.ms": "9223372036854775808"}, "does not fit 64 bits"),
        ({"segment.bytes": "2147483648"}, "Not a number of type INT: it does not fit 32 bits"),
        (
            {"segment.bytes": "13"},
            "Invalid value 13 for configuration segment.bytes: Value must be at least 14",
        ),
        (
            {"preallocate": "yes"},
            "for configuration preallocate: Expected value to be either true or false",
        ),
        ({"cleanup.policy": "delete,shred"}, "must be one of: compact, delete, not 'shred'"),
        (
            {"compression.type": "none"},
            "for configuration compression.type: String must be one of: uncompressed",
        ),
        ({"compression.gzip.level": "0"}, "Value must be at least 1, or -1"),
        ({"compression.zstd.level": "23"}, "Value must be no more than 22"),
        ({"min.cleanable.dirty.ratio": "1.1"}, "Value must be no more than 1"),
        ({"min.cleanable.dirty.ratio": "half"}, "Not a number of type DOUBLE"),
        ({"leader.replication.throttled.replicas": "0-1"}, "must be '*' or partition:broker"),
        (
            {"min.compaction.lag.ms": "2", "max.compaction.lag.ms": "1"},
            "min.compaction.lag.ms (2) > max.compaction.lag.ms (1)",
        ),
        ({"remote.log.copy.disable": "true"}, "cannot be switched on in ZooKeeper mode"),
        ({"remote.storage.enable": "true"}, "needs remote.log.storage.system.enable"),
    ],
)
def test_wrong_topic_settings_are_told_in_a_sentence(overrides: dict[str, str], fault: str) -> None:
    assert fault in (topic_faults(overrides, PLAIN) or "")


def test_overrides_are_checked_together_with_the_settings_below_them() -> None:
    broker = BrokerSettings.parse({"log.cleaner.max.compaction.lag.ms": "10"})
    assert topic_faults({"min.compaction.lag.ms": "10"}, broker) is None
    assert topic_faults({"min.compaction.lag.ms": "11"}, broker) is not None


@pytest.mark.parametrize(
    ("overrides", "fault"),
    [
        ({"cleanup.policy": "compact"}, "cleanup.policy of compact"),
        ({"retention.ms": "5", "local.retention.ms": "-1"}, "local.retention.ms=-1"),
        ({"retention.bytes": "5", "local.retention.bytes": "6"}, "local.retention.bytes=6"),
        ({"retention.bytes": "5", "local.retention.bytes": "5"}, ""),
    ],
)
def test_remote_storage_has_its_own_relations(overrides: dict[str, str], fault: str) -> None:
    broker = BrokerSettings.parse({"remote.log.storage.system.enable": "true"})
    assert fault in (topic_faults({"remote.storage.enable": "true", **overrides}, broker) or "")


@pytest.mark.parametrize(
    ("given_text", "sentence"),
    [
        ({"num.partition": "1"}, "num.partition is not a broker or topic setting; did you mean"),
        (
            {"num.partitions": "x"},
            "Invalid value x for configuration num.partitions: Not a number of type INT",
        ),
        (
            {"num.partitions": "0"},
            "Invalid value 0 for configuration num.partitions: Value must be at least 1",
        ),
        ({"retention.ms": "1", "log.retention.ms": "2"}, "mean the same"),
        ({"log.retention.hours": "0"}, "must not be 0"),
        ({"replica.fetch.wait.max.ms": "40000"}, "must not be more than replica.lag.time.max.ms"),
        ({"ssl.client.auths": "none"}, "did you mean ssl.client.auth?"),
        ({"listener.name.plain.zzz": "none"}, "is not a broker"),
    ],
)
def test_wrong_broker_settings_are_told_in_a_sentence(
    given_text: dict[str, str], sentence: str
) -> None:
    with pytest.raises(UsageError) as raised:
        BrokerSettings.parse(given_text)
    assert sentence in str(raised.value)


def test_a_password_is_not_repeated_in_a_sentence() -> None:
    definition = BROKER_SETTINGS["ssl.key.password"]
    assert definition.is_sensitive
    assert definition._shown("secret") == "[hidden]"


def test_what_the_store_holds_but_nobody_understands_is_left_out() -> None:
    topic = PLAIN.for_topic({"zzz": "1", "retention.ms": "soon", "flush.messages": "2"})
    assert topic.int("retention.ms") == 604_800_000
    assert topic.int("flush.messages") == 2


_NUMBERS = [d for d in TOPIC_SETTINGS.values() if d.kind in (Kind.INT, Kind.LONG)]


@given(st.sampled_from(_NUMBERS), st.integers())
def test_a_number_is_read_back_or_refused_and_never_changed(
    definition: Definition, number: int
) -> None:
    value = definition.parse(f" {number} ")
    assert isinstance(value, Refused) or value == number


@given(st.sampled_from(sorted(TOPIC_SETTINGS)), st.text(max_size=30))
def test_any_text_is_either_in_force_or_refused(name: str, text: str) -> None:
    fault = topic_faults({name: text}, PLAIN)
    in_force = PLAIN.for_topic({name: text})
    if fault is None:
        assert in_force.source(name) is Source.TOPIC
        again = PLAIN.for_topic({name: in_force.text(name) or ""})
        assert again.text(name) == in_force.text(name)
    else:
        assert name in fault


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("2.8", True),
        ("2.8.1", True),
        ("2.8-IV1", True),
        ("2.8-IV7", False),
        ("0.10.0", True),
        ("0.10", False),
        ("3.9-IV0", True),
        ("9.9", False),
        ("", False),
    ],
)
def test_a_message_format_is_that_of_a_release(text: str, known: bool) -> None:
    fault = topic_faults({"message.format.version": text}, PLAIN)
    assert (fault is None) == known, fault


@pytest.mark.parametrize(
    ("name", "written", "shown"),
    [
        ("retention.ms", " +5 ", "5"),
        ("preallocate", "TRUE", "true"),
        ("cleanup.policy", "compact , delete", "compact,delete"),
        ("min.cleanable.dirty.ratio", "1e-1", "0.1"),
        ("min.cleanable.dirty.ratio", "0.0001", "1.0E-4"),
    ],
)
def test_an_override_is_shown_as_it_is_understood(name: str, written: str, shown: str) -> None:
    topic = PLAIN.for_topic({name: written})
    assert topic.text(name) == shown
    assert topic.origins(name)[0] == Origin(name, shown, Source.TOPIC)


def test_great_numbers_are_written_as_java_does() -> None:
    name = "log.cleaner.io.max.bytes.per.second"
    assert PLAIN.text(name) == BROKER_SETTINGS[name].default == "1.7976931348623157E308"
    assert BrokerSettings.parse({name: "10000000"}).text(name) == "1.0E7"
    assert BrokerSettings.parse({name: "9999999.5"}).text(name) == "9999999.5"
