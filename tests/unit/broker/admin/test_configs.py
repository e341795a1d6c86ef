"""Settings described and altered, on a real store."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from klamm.broker.admin import configs
from klamm.broker.admin.entries import SettingEntry
from klamm.broker.admin.policies import Alteration
from klamm.controller.admission import NewTopic
from klamm.controller.admission.alteration import Change
from klamm.model.alterations import ConfigResourceType, SettingOperation
from klamm.model.errors import ErrorCode, Refused
from klamm.model.settings import BROKER_SETTINGS, TOPIC_SETTINGS, UNTOLD, Origin, Source
from klamm.protocol.messages.alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
)
from klamm.store import layout
from unit.broker.admin.test_topic_admin import create
from unit.broker.admin_host import TestHost, on_a_host

TOPIC, BROKER, LOGGER = ConfigResourceType


def cautious(alteration: Alteration) -> str | None:
    return "not this one" if "flush.ms" in alteration.configs else None


async def with_topic(host: TestHost) -> None:
    await create(host, NewTopic(name="t"), timeout_ms=0)
    await host.announce()


async def entries(host: TestHost, kind: int, name: str, *keys: str) -> dict[str, SettingEntry]:
    found = await configs.describe(host, kind, name, keys)
    assert not isinstance(found, Refused), found
    return {entry.definition.name: entry for entry in found}


async def alter(
    host: TestHost, kind: int, name: str, *changes: Change, incremental: bool = True
) -> int:
    outcome = await configs.alter(
        host, kind, name, changes, incremental=incremental, validate_only=False
    )
    return ErrorCode.NONE if outcome is None else outcome.code


def test_a_topic_shows_all_its_settings_and_where_they_come_from() -> None:
    async def test(host: TestHost) -> None:
        await with_topic(host)
        assert await alter(host, TOPIC, "t", Change("retention.ms", "5")) == 0
        everything = await entries(host, TOPIC, "t")
        assert everything.keys() == TOPIC_SETTINGS.keys()
        retention = everything["retention.ms"]
        assert (retention.value, retention.source, retention.read_only) == (
            "5",
            Source.TOPIC,
            False,
        )
        assert retention.origins == [
            Origin("retention.ms", "5", Source.TOPIC),
            Origin("log.retention.hours", "7", Source.STATIC_BROKER),
            Origin("log.retention.hours", "168", Source.DEFAULT),
        ]
        some = await entries(host, TOPIC, "t", "flush.ms", "nothing")
        assert list(some) == ["flush.ms"]

    on_a_host(test, {"log.retention.hours": "7"})


def test_a_broker_shows_its_own_settings_and_hides_its_passwords() -> None:
    async def test(host: TestHost) -> None:
        assert await alter(host, BROKER, "", Change("log.retention.ms", "5")) == 0
        assert await alter(host, BROKER, "0", Change("message.max.bytes", "6")) == 0
        everything = await entries(host, BROKER, "0")
        assert everything.keys() == BROKER_SETTINGS.keys() - UNTOLD
        assert everything["log.retention.ms"].source is Source.DYNAMIC_DEFAULT_BROKER
        assert everything["message.max.bytes"].source is Source.DYNAMIC_BROKER
        assert everything["num.partitions"].read_only
        assert not everything["message.max.bytes"].read_only
        secret = everything["ssl.key.password"]
        assert (secret.value, secret.source) == (None, Source.STATIC_BROKER)
        assert [origin.text for origin in secret.origins] == [None]
        assert list(await entries(host, BROKER, "")) == ["log.retention.ms"]
        assert everything["listeners"].value == "PLAINTEXT://h:0"

    on_a_host(test, {"ssl.key.password": "secret"})


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "", 42),
        (TOPIC, "a b", 17),
        (TOPIC, "absent", 3),
        (BROKER, "1", 42),
        (BROKER, "x", 42),
        (8, "1", 42),
        (8, "", 42),
        (99, "0", 42),
    ],
)
def test_what_has_no_settings_here_is_refused(kind: int, name: str, code: int) -> None:
    async def test(host: TestHost) -> None:
        refused = await configs.describe(host, kind, name, None)
        assert isinstance(refused, Refused)
        assert refused.code == code
        assert await alter(host, kind, name, Change("flush.ms", "1")) == code

    on_a_host(test)


@pytest.mark.parametrize(
    ("kind", "name", "changes", "code"),
    [
        (TOPIC, "t", [Change("flush.msx", "1")], 40),
        (TOPIC, "t", [Change("flush.ms", "x")], 40),
        (TOPIC, "t", [Change("flush.ms", None)], 42),
        (TOPIC, "t", [Change("flush.ms", "1"), Change("flush.ms", "1")], 42),
        (TOPIC, "t", [Change("flush.ms", "1", SettingOperation.APPEND)], 40),
        (TOPIC, "t", [Change("cleanup.policy", "shred", SettingOperation.APPEND)], 40),
        (BROKER, "", [Change("num.partitions", "2")], 42),
        (BROKER, "0", [Change("plug.in", "x" * 70_000)], 40),
        (BROKER, "0", [Change("log.retention.ms", "0")], 40),
        (BROKER, "0", [Change("message.max.bytes", "-1")], 40),
    ],
)
def test_changes_that_cannot_be_are_refused(
    kind: int, name: str, changes: Sequence[Change], code: int
) -> None:
    async def test(host: TestHost) -> None:
        await with_topic(host)
        assert await alter(host, kind, name, *changes) == code
        assert await host.session.children(layout.CONFIG_CHANGES) == ()

    on_a_host(test)


def test_all_throttles_that_a_reassignment_tool_clears_can_be_cleared() -> None:
    async def test(host: TestHost) -> None:
        gone = [
            Change(name, None, SettingOperation.DELETE)
            for name in (
                "leader.replication.throttled.rate",
                "follower.replication.throttled.rate",
                "replica.alter.log.dirs.io.max.bytes.per.second",
            )
        ]
        assert await alter(host, BROKER, "0", *gone) == 0

    on_a_host(test)


def test_replacing_forgets_what_is_not_named() -> None:
    async def test(host: TestHost) -> None:
        await with_topic(host)
        await alter(host, TOPIC, "t", Change("flush.ms", "1"), Change("retention.ms", "2"))
        assert await alter(host, TOPIC, "t", Change("flush.ms", "3"), incremental=False) == 0
        found = await entries(host, TOPIC, "t", "flush.ms", "retention.ms")
        assert found["flush.ms"].value == "3"
        assert found["retention.ms"].source is Source.DEFAULT

    on_a_host(test)


def test_validating_changes_nothing() -> None:
    async def test(host: TestHost) -> None:
        await with_topic(host)
        for text, refused in (("1", False), ("x", True)):
            outcome = await configs.alter(
                host, TOPIC, "t", [Change("flush.ms", text)], incremental=True, validate_only=True
            )
            assert (outcome is not None) is refused
        assert await host.session.children(layout.CONFIG_CHANGES) == ()

    on_a_host(test)


def test_a_policy_on_changes_is_asked_last() -> None:
    async def test(host: TestHost) -> None:
        await with_topic(host)
        assert await alter(host, TOPIC, "t", Change("flush.ms", "1")) == 44
        assert await alter(host, TOPIC, "t", Change("flush.ms", "x")) == 40
        assert await alter(host, TOPIC, "t", Change("retention.ms", "1")) == 0

    on_a_host(test, {"alter.config.policy.class.name": f"{__name__}:cautious"})


def test_the_levels_of_loggers_are_settings_too() -> None:
    name = "klamm.broker.admin.configs.test"
    logger = logging.getLogger(name)

    async def test(host: TestHost) -> None:
        assert await alter(host, LOGGER, "0", Change(name, "debug")) == 0
        assert logger.level == logging.DEBUG
        shown = (await entries(host, LOGGER, "0", name))[name]
        assert (shown.value, shown.source) == ("DEBUG", Source.DYNAMIC_BROKER_LOGGER)
        assert await alter(host, LOGGER, "0", Change(name, None, SettingOperation.DELETE)) == 0
        assert logger.level == logging.NOTSET

    on_a_host(test)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (Change("klamm.nobody", "INFO"), 40),
        (Change("klamm", "LOUD"), 40),
        (Change("klamm", None, SettingOperation.DELETE), 42),
        (Change("klamm", "INFO", SettingOperation.APPEND), 42),
    ],
)
def test_levels_that_cannot_be_are_refused(change: Change, code: int) -> None:
    async def test(host: TestHost) -> None:
        before = logging.getLogger("klamm").level
        assert await alter(host, LOGGER, "0", Change("klamm", "DEBUG"), change) == code
        assert logging.getLogger("klamm").level == before
        assert await alter(host, LOGGER, "0", change, incremental=False) == 42

    on_a_host(test)


@pytest.mark.parametrize("incremental", [True, False])
def test_a_resource_that_is_named_twice_is_refused_and_the_others_are_not(
    incremental: bool,
) -> None:
    async def test(host: TestHost) -> None:
        await with_topic(host)
        twice = AlterConfigsResource(BROKER, "0")
        answers = await configs.alter_all(
            host,
            [twice, AlterConfigsResource(TOPIC, "t"), twice],
            lambda _: [Change("retention.ms", "5")],
            AlterConfigsResourceResponse,
            incremental=incremental,
            validate_only=False,
        )
        codes = [answer.error_code for answer in answers]
        assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
        assert (await entries(host, TOPIC, "t"))["retention.ms"].value == "5"

    on_a_host(test)
