"""Brokers before each other: every way in which they can prove who they are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from guarded import OAUTH_MODULE, PLAIN_MODULE, SCRAM_MODULE, Authority
from klamm.client.aio.connection import Connection
from klamm.client.errors import Distrusted
from klamm.model.errors import UsageError
from klamm.model.scram import ScramMechanism
from klamm.security.credentials.scram import encode_credential, from_password
from klamm.store import layout
from klamm.store.embedded import EmbeddedStore
from klamm.store.layout import ConfigEntity, ConfigKind
from klamm.store.port import Create
from unit.broker.brokers import World, until

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@asynccontextmanager
async def two_brokers(path: Path, settings: Mapping[str, str]) -> AsyncIterator[World]:
    """Two brokers on a store that knows how the user `broker` logs in by SCRAM."""
    store = EmbeddedStore.open(None)
    session = await store.connect()
    entity = ConfigEntity(ConfigKind.USER, "broker")
    texts = {
        m.value: encode_credential(from_password(m, "b-secret", b"salt")) for m in ScramMechanism
    }
    await session.multis([Create(above)] for above in layout.with_parents([entity.path])[:-1])
    await session.multi([Create(entity.path, layout.encode_config(texts))])
    await session.close()
    w = World(store, path, settings, (), {})
    try:
        for broker in range(2):
            await w.start(broker)
        yield w
    finally:
        for broker in list(w.brokers):
            await w.kill(broker)
        await store.close()


def known_as(w: World) -> set[tuple[str, bool]]:
    """Everybody who is connected, as each broker knows them, and whether it is a broker."""
    listeners = [broker.listeners for broker in w.brokers.values()]
    return {(c.principal, c.is_broker) for one in listeners for c in one.connections}


def sasl(mechanism: str, text: str, **more: str) -> dict[str, str]:
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": mechanism,
        "sasl.mechanism.inter.broker.protocol": mechanism,
        f"listener.name.sasl_plaintext.{mechanism.lower()}.sasl.jaas.config": text,
        **more,
    }


LOGIN = 'username="broker" password="b-secret"'
WAYS = {
    "PLAIN": sasl("PLAIN", f'{PLAIN_MODULE} required {LOGIN} user_broker="b-secret";'),
    "SCRAM-SHA-256": sasl("SCRAM-SHA-256", f"{SCRAM_MODULE} required {LOGIN};"),
    "SCRAM-SHA-512": sasl("SCRAM-SHA-512", f"{SCRAM_MODULE} required {LOGIN};"),
    "OAUTHBEARER": sasl(
        "OAUTHBEARER", f'{OAUTH_MODULE} required unsecuredLoginStringClaim_sub="broker";'
    )
    | {"klamm.allow.unsecured.oauth": "true"},
}


@pytest.mark.parametrize("way", WAYS)
async def test_brokers_log_in_by(tmp_path: Path, way: str) -> None:
    async with two_brokers(tmp_path, WAYS[way]) as w:
        await w.create("t", (0, 1), (1, 0))
        await until(lambda: known_as(w) == {("User:broker", True)}, "brokers know each other")


async def test_brokers_show_certificates(tmp_path: Path, authority: Authority) -> None:
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SSL",
        "ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?),.*$/$1/",
        **authority.settings(authority.issue("k1")),
    }
    async with two_brokers(tmp_path, settings) as w:
        await w.create("t", (0, 1), (1, 0))
        await until(lambda: known_as(w) == {("User:k1", True)}, "brokers know each other")


async def test_a_broker_of_another_name_is_not_believed(
    tmp_path: Path, authority: Authority
) -> None:
    """The certificate is good, and not for the address at which it is shown."""
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SSL",
        **authority.settings(authority.issue("k2", "elsewhere.example")),
    }
    unchecked = settings | {"ssl.endpoint.identification.algorithm": ""}
    async with two_brokers(tmp_path, unchecked) as w:
        await w.create("t", (0, 1))
        peers = w.brokers[0].parts.peers
        there = w.brokers[1].endpoint
        connection = await peers.connect(w.brokers[1].id, there, "test")
        await connection.close()
        checking = replace(peers.security_of("SSL"), checks_name=True)
        with pytest.raises(Distrusted, match="not trusted"):
            await Connection.open(there.host, there.port, security=checking)


async def test_logins_that_end_are_renewed_and_replication_goes_on(tmp_path: Path) -> None:
    settings = WAYS["PLAIN"] | {"connections.max.reauth.ms": "1200"}
    async with two_brokers(tmp_path, settings) as w:
        await w.create("t", (0, 1))
        counts = [b.parts.seat.identity.counts for b in w.brokers.values()]
        first = sum(c.total("successful") for c in counts)

        def renewed() -> bool:
            return sum(c.total("successful") for c in counts) > first

        await until(renewed, "the follower has logged in anew")
        assert sum(c.total("expired") for c in counts) == 0, "before anybody was cut"
        assert w.leader().isr.committed == (0, 1)


async def test_a_key_store_that_is_not_there_refuses_the_start(tmp_path: Path) -> None:
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tmp_path / "none.pem"),
    }
    with pytest.raises(UsageError, match=r"none\.pem.*No such file"):
        async with two_brokers(tmp_path, settings):
            pass
