"""Settings that change while the broker runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from klamm.broker.admin.dynamic_config import DynamicConfig
from klamm.broker.admin.topic_writes import alter_config
from klamm.broker.quotas.quotas import PRODUCER_BYTE_RATE, QuotaClient
from klamm.store import layout
from klamm.store.layout import ConfigEntity, ConfigKind
from klamm.store.port import Create
from unit.broker.admin_host import TestHost, on_a_host

TOPIC = ConfigEntity(ConfigKind.TOPIC, "t")
CLUSTER = ConfigEntity(ConfigKind.BROKER, None)
OWN = ConfigEntity(ConfigKind.BROKER, "0")
OTHER = ConfigEntity(ConfigKind.BROKER, "1")


async def put(host: TestHost, entity: ConfigEntity, **texts: str) -> None:
    named = {name.replace("_", "."): text for name, text in texts.items()}
    assert await alter_config(host.session, entity, lambda _: named) is None


def on(host: TestHost) -> DynamicConfig:
    config = DynamicConfig(host, host.quotas, host.clock, host.settings)
    config.on_topic.append(host.topic_settings_changed)
    config.on_broker.append(host.broker_settings_changed)
    return config


@asynccontextmanager
async def following(host: TestHost) -> AsyncIterator[DynamicConfig]:
    config = on(host)
    await config.load()
    host.heard.clear()
    config.follow()
    try:
        yield config
    finally:
        await config.stop()


def test_everything_stored_is_there_after_loading() -> None:
    async def test(host: TestHost) -> None:
        await put(host, TOPIC, retention_ms="1")
        await put(host, CLUSTER, log_retention_ms="2", message_max_bytes="3")
        await put(host, OWN, message_max_bytes="4")
        await put(host, OTHER, message_max_bytes="5")
        user = ConfigEntity(ConfigKind.USER, "a b")
        both = ConfigEntity(ConfigKind.CLIENT, "c", user)
        await put(host, user, **{PRODUCER_BYTE_RATE.replace(".", "_"): "6"})
        assert await alter_config(host.session, both, lambda _: {PRODUCER_BYTE_RATE: "7"}) is None
        assert await alter_config(host.session, user, lambda _: {PRODUCER_BYTE_RATE: "6"}) is None
        config = on(host)
        await config.load()
        assert config.topic("t").int("retention.ms") == 1
        assert config.topic("u").int("retention.ms") == 2
        assert config.settings.int("message.max.bytes") == 4
        assert host.settings is config.settings
        limits = [
            host.quotas.limit(PRODUCER_BYTE_RATE, QuotaClient("a b", id)) for id in ("c", "d")
        ]
        assert [limit and limit.rate for limit in limits] == [7.0, 6.0]
        assert set(await config.stored_quotas()) == {user, both}

    on_a_host(test)


def test_a_changed_topic_is_heard_of() -> None:
    async def test(host: TestHost) -> None:
        async with following(host) as config:
            await put(host, TOPIC, retention_ms="1")
            await config.caught_up()
            assert host.heard == [("t", {"retention.ms": "1"})]
            assert config.topic("t").int("retention.ms") == 1
            await put(host, TOPIC)
            await config.caught_up()
            assert host.heard[1:] == [("t", {})]
            assert config.topic("t").int("retention.ms") == 604_800_000

    on_a_host(test)


def test_markers_there_at_the_start_are_not_acted_upon_again() -> None:
    async def test(host: TestHost) -> None:
        await put(host, TOPIC, retention_ms="1")
        async with following(host) as config:
            await put(host, ConfigEntity(ConfigKind.TOPIC, "u"), retention_ms="2")
            await config.caught_up()
            assert host.heard == [("u", {"retention.ms": "2"})]

    on_a_host(test)


def test_what_cannot_be_understood_is_skipped_and_the_rest_goes_on() -> None:
    async def test(host: TestHost) -> None:
        async with following(host) as config:
            broken = Create(layout.CONFIG_CHANGE_PREFIX, b"garbage", sequential=True)
            await host.session.multi([broken])
            await put(host, CLUSTER, message_max_bytes="many", log_retention_ms="3")
            await config.caught_up()
            assert host.heard == ["broker"]
            assert config.settings.int("message.max.bytes") == 1_048_588
            assert config.topic("t").int("retention.ms") == 3

    on_a_host(test)


def test_a_change_that_cannot_be_followed_does_not_stop_the_next() -> None:
    async def test(host: TestHost) -> None:
        async with following(host) as config:
            await put(host, ConfigEntity(ConfigKind.TOPIC, "spoilt"), retention_ms="1")
            await put(host, TOPIC, retention_ms="2")
            await config.caught_up()
            assert host.heard == [("t", {"retention.ms": "2"})]

    on_a_host(test)


def test_a_quota_is_in_force_once_it_is_heard_of_and_gone_when_it_is_lifted() -> None:
    async def test(host: TestHost) -> None:
        entity = ConfigEntity(ConfigKind.CLIENT, None)
        async with following(host) as config:
            await alter_config(host.session, entity, lambda _: {PRODUCER_BYTE_RATE: "5"})
            await config.caught_up()
            assert host.quotas.is_active
            await alter_config(host.session, entity, lambda _: {})
            await config.caught_up()
            assert not host.quotas.is_active

    on_a_host(test)


def test_old_markers_are_swept_away() -> None:
    async def test(host: TestHost) -> None:
        await put(host, TOPIC, retention_ms="1")
        (marker,) = await host.session.children(layout.CONFIG_CHANGES) or ()
        node = await host.session.get(f"{layout.CONFIG_CHANGES}/{marker}")
        assert node is not None
        host.clock.ms = node.stat.ctime_ms + 15 * 60 * 1000 + 60_000
        async with following(host) as config:
            await put(host, TOPIC, retention_ms="2")
            await config.caught_up()
        # The new one is as old by the clock that was moved, and goes with the other.
        assert await host.session.children(layout.CONFIG_CHANGES) == ()

    on_a_host(test)


@pytest.mark.parametrize(("count", "left"), [(999, 1000), (1000, 0)])
def test_markers_in_great_number_are_swept_away_early(count: int, left: int) -> None:
    async def test(host: TestHost) -> None:
        data = layout.encode_config_change(TOPIC)
        marker = Create(layout.CONFIG_CHANGE_PREFIX, data, sequential=True)
        await host.session.multi([marker] * count)
        (first, *_) = await host.session.children(layout.CONFIG_CHANGES) or ()
        node = await host.session.get(f"{layout.CONFIG_CHANGES}/{first}")
        assert node is not None
        host.clock.ms = node.stat.ctime_ms + 10 * 60 * 1000
        async with following(host) as config:
            await put(host, TOPIC, retention_ms="2")
            await config.caught_up()
        assert len(await host.session.children(layout.CONFIG_CHANGES) or ()) == left

    on_a_host(test)


def test_a_new_topic_is_learnt_and_forgotten_with_its_logs() -> None:
    async def test(host: TestHost) -> None:
        async with following(host) as config:
            data = layout.encode_config({"retention.ms": "9"})
            await host.session.multi([Create(layout.topic_config_path("t"), data)])
            assert config.overrides("t") == {}
            await config.learn(["t", "u"])
            assert config.overrides("t") == {"retention.ms": "9"}
            config.forget("t")
            assert config.overrides("t") == {}

    on_a_host(test)
