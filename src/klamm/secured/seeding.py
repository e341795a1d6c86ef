"""SCRAM credentials in the store before the first login, as Kafka's tool writes them there.

The store is the truth: whoever changed a password or removed a user while the cluster ran finds it
so after a restart. Only users that are named, or drawn, anew are written, the brokers' own, and
`admin` where it is missing, for without it nobody could do anything.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from klamm.model.errors import StoreUnavailable
from klamm.model.scram import ScramMechanism
from klamm.secured.vault import Vault
from klamm.secured.wishes import ADMIN, BROKER
from klamm.security.credentials.scram import (
    ScramCredential,
    credentials_of,
    encode_credential,
    from_password,
)
from klamm.store import layout
from klamm.store.layout import ConfigEntity, ConfigKind
from klamm.store.port import Create, Op, Session, SetData, Store

ROUNDS: Final = 8192
_SALT_SIZE: Final = 24
_TRIES: Final = 8

Credentials = Mapping[ScramMechanism, ScramCredential]


@dataclass(frozen=True, slots=True)
class Seeded:
    """The users that are not as the files have them: removed, or with another password."""

    removed: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()


async def seed(store: Store, vault: Vault, mechanisms: Sequence[str]) -> Seeded:
    """Writes the credentials that are missing, and compares the others."""
    wanted = [ScramMechanism(name) for name in mechanisms]
    session = await store.connect()
    try:
        await _make_parents(session)
        await _put(session, BROKER, await _salted(vault.drawn["broker"], wanted))
        removed, changed = set(), set()
        for user, password in vault.passwords.items():
            held = await _held(session, user)
            if user in vault.fresh or (user == ADMIN and not held):
                await _put(session, user, await _salted(password, wanted))
            elif not held:
                removed.add(user)
            elif not await asyncio.to_thread(_fits, password, held):
                changed.add(user)
            elif missing := [mechanism for mechanism in wanted if mechanism not in held]:
                await _put(session, user, await _salted(password, missing))
        return Seeded(frozenset(removed), frozenset(changed))
    finally:
        await session.close()


async def _make_parents(session: Session) -> None:
    users = layout.parent(_entity(ADMIN).path)
    paths = layout.with_parents([users, layout.CONFIG_CHANGES])
    existing = await session.get_many(paths)
    missing = [path for path, node in zip(paths, existing, strict=True) if node is None]
    await session.multis([Create(path)] for path in missing)


async def _held(session: Session, user: str) -> Credentials:
    node = await session.get(_entity(user).path)
    return credentials_of(layout.decode_config(node.data) or {}) if node is not None else {}


async def _put(session: Session, user: str, texts: Mapping[str, str]) -> None:
    """Sets credentials among the settings of a user, and announces it."""
    entity = _entity(user)
    for _ in range(_TRIES):
        node = await session.get(entity.path)
        write: Op
        if node is None:
            write = Create(entity.path, layout.encode_config(texts))
        else:
            settings = {**(layout.decode_config(node.data) or {}), **texts}
            write = SetData(entity.path, layout.encode_config(settings), node.stat.version)
        told = Create(
            layout.CONFIG_CHANGE_PREFIX, layout.encode_config_change(entity), sequential=True
        )
        results = await session.multi([write, told])
        if all(result.ok for result in results):
            return
    raise StoreUnavailable(f"the credentials of {user} could not be written: others kept changing")


async def _salted(password: str, mechanisms: Sequence[ScramMechanism]) -> dict[str, str]:
    def derive() -> dict[str, str]:
        return {
            mechanism.value: encode_credential(
                from_password(mechanism, password, secrets.token_bytes(_SALT_SIZE), ROUNDS)
            )
            for mechanism in mechanisms
        }

    return await asyncio.to_thread(derive)


def _fits(password: str, held: Credentials) -> bool:
    """Whether every credential is that of this password."""
    return all(
        from_password(mechanism, password, one.salt, one.rounds) == one
        for mechanism, one in held.items()
    )


def _entity(user: str) -> ConfigEntity:
    return ConfigEntity(ConfigKind.USER, user)
