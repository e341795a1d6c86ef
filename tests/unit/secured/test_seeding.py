from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from klamm.model.scram import ScramMechanism
from klamm.secured.seeding import Seeded, seed
from klamm.secured.vault import Vault, open_vault
from klamm.security.credentials.scram import credentials_of, encode_credential, from_password
from klamm.store import layout
from klamm.store.embedded import EmbeddedStore
from klamm.store.layout import ConfigEntity, ConfigKind
from klamm.store.port import Delete, SetData

BOTH = ("SCRAM-SHA-512", "SCRAM-SHA-256")


def opened(data: Path, **users: str | None) -> Vault:
    wanted = {"admin": None, **users}
    return open_vault(data, wanted, ["localhost"], datetime.now(UTC), signs_tokens=False)


def path_of(user: str) -> str:
    return ConfigEntity(ConfigKind.USER, user).path


@pytest.fixture
def store() -> EmbeddedStore:
    return EmbeddedStore.open(None)


async def settings_of(store: EmbeddedStore, user: str) -> dict[str, str]:
    session = await store.connect()
    node = await session.get(path_of(user))
    await session.close()
    return (layout.decode_config(node.data) or {}) if node is not None else {}


def proves(settings: dict[str, str], password: str) -> bool:
    held = credentials_of(settings)
    return bool(held) and all(
        from_password(mechanism, password, one.salt, one.rounds) == one
        for mechanism, one in held.items()
    )


async def test_everybody_is_there_before_the_first_login(
    store: EmbeddedStore, tmp_path: Path
) -> None:
    kept = opened(tmp_path, alice="geheim")
    assert await seed(store, kept, BOTH) == Seeded()
    for user, password in {**kept.passwords, "klamm-broker": kept.drawn["broker"]}.items():
        found = await settings_of(store, user)
        assert found.keys() == set(BOTH), user
        assert proves(found, password), user
    session = await store.connect()
    names = await session.children(layout.CONFIG_CHANGES) or ()
    nodes = await session.get_many([f"{layout.CONFIG_CHANGES}/{name}" for name in names])
    told = [layout.decode_config_change(node.data) for node in nodes if node is not None]
    assert {entity.name for entity in told if entity} == {"klamm-broker", "admin", "alice"}


async def test_the_store_is_the_truth_after_a_restart(store: EmbeddedStore, tmp_path: Path) -> None:
    await seed(store, opened(tmp_path, alice=None, bob=None, carol=None), BOTH)
    session = await store.connect()
    other = from_password(ScramMechanism.SHA_256, "changed", b"salt" * 4)
    changed = {"SCRAM-SHA-256": encode_credential(other), "consumer_byte_rate": "5"}
    await session.multi([SetData(path_of("alice"), layout.encode_config(changed))])
    await session.multi([Delete(path_of("bob"))])
    await session.multi([Delete(path_of("admin"))])
    again = opened(tmp_path)
    assert await seed(store, again, BOTH) == Seeded(frozenset({"bob"}), frozenset({"alice"}))
    assert await settings_of(store, "alice") == changed
    assert await settings_of(store, "bob") == {}
    assert proves(await settings_of(store, "admin"), again.passwords["admin"])
    named = opened(tmp_path, alice="mine")
    assert await seed(store, named, BOTH) == Seeded(removed=frozenset({"bob"}))
    found = await settings_of(store, "alice")
    assert proves(found, "mine")
    assert found["consumer_byte_rate"] == "5", "quotas are left alone"


async def test_a_mechanism_that_is_new_gets_its_credentials(
    store: EmbeddedStore, tmp_path: Path
) -> None:
    await seed(store, opened(tmp_path, alice=None), BOTH[:1])
    again = opened(tmp_path)
    assert await seed(store, again, BOTH) == Seeded()
    found = await settings_of(store, "alice")
    assert found.keys() == set(BOTH)
    assert proves(found, again.passwords["alice"])
