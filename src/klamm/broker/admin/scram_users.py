"""SCRAM credentials of users, in the store beside their quotas.

Every broker reads them there; a change is announced like one of settings (`dynamic_config`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from klamm.broker.admin import topic_writes
from klamm.model.errors import Refused
from klamm.model.scram import ScramMechanism
from klamm.security.credentials.scram import (
    Altered,
    Deletion,
    ScramCredential,
    Upsertion,
    alter,
    credentials_of,
)
from klamm.store import layout
from klamm.store.layout import ConfigEntity, ConfigKind
from klamm.store.port import Session

_USERS: Final = f"{layout.CONFIG}/{ConfigKind.USER}"


async def stored_credentials(
    session: Session,
) -> dict[str, Mapping[ScramMechanism, ScramCredential]]:
    """The credentials of every user that has some."""
    names = await session.children(_USERS) or ()
    paths = [layout.decode_entity_path(f"{ConfigKind.USER}/{name}") for name in names]
    users = [entity for entity in paths if entity is not None and entity.name is not None]
    nodes = await session.get_many([user.path for user in users])
    found: dict[str, Mapping[ScramMechanism, ScramCredential]] = {}
    for user, node in zip(users, nodes, strict=True):
        config = layout.decode_config(node.data) if node is not None else None
        held = credentials_of(config or {})
        if held and user.name is not None:
            found[user.name] = held
    return found


async def alter_user(
    session: Session, user: str, deletions: Iterable[Deletion], upsertions: Iterable[Upsertion]
) -> Refused | None:
    """Change the credentials of one user, all of them or none."""
    gone, come = list(deletions), list(upsertions)

    def planned(stored: Mapping[str, str]) -> Altered:
        (one,) = alter({user: credentials_of(stored)}, gone, come)
        return one

    def change(stored: Mapping[str, str]) -> dict[str, str] | Refused:
        one = planned(stored)
        if one.refused is not None:
            return one.refused
        kept = {name: text for name, text in stored.items() if name not in one.removes}
        return kept | dict(one.sets)

    fault = planned({}).refused
    if not user and fault is not None:
        return fault  # there is no node of this name to be looked at
    return await topic_writes.alter_config(session, ConfigEntity(ConfigKind.USER, user), change)
