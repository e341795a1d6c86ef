"""Client quotas: who may do how much. One call to look, one to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from klamm.client.aio.cluster import Client
from klamm.client.errors import code_of
from klamm.model.errors import RequestRefused
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import alter_client_quotas, describe_client_quotas

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

Entity = Mapping[str, str | None]  # names by type; None is the default of the type


class Match(IntEnum):
    """The way a condition matches a name."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


class Condition(NamedTuple):
    """A condition that the wanted entities fulfil."""

    entity_type: str
    match: Match
    name: str | None = None


class EntityQuotas(NamedTuple):
    """The quotas of one entity."""

    entity: Entity
    values: Mapping[str, float]


async def describe(
    client: Client, conditions: Sequence[Condition], *, strict: bool = True
) -> list[EntityQuotas]:
    """The quotas of those whom the conditions describe; strict: who has no other types of names."""
    request = describe_client_quotas.Request(
        [describe_client_quotas.ComponentData(*condition) for condition in conditions], strict
    )
    response: describe_client_quotas.Response = await client.anywhere(
        ApiKey.DESCRIBE_CLIENT_QUOTAS, request
    )
    if response.error_code:
        raise RequestRefused(code_of(response.error_code), response.error_message)
    return [
        EntityQuotas(
            {part.entity_type: part.entity_name for part in entry.entity},
            {value.key: value.value for value in entry.values},
        )
        for entry in response.entries or ()
    ]


async def alter(client: Client, entity: Entity, changes: Mapping[str, float | None]) -> None:
    """Set quotas of an entity, or with None lift them; RequestRefused where the broker says no."""
    entry = alter_client_quotas.EntryData(
        [alter_client_quotas.EntityData(kind, name) for kind, name in entity.items()],
        [
            alter_client_quotas.OpData(key, 0.0 if rate is None else rate, remove=rate is None)
            for key, rate in changes.items()
        ],
    )
    response: alter_client_quotas.Response = await client.anywhere(
        ApiKey.ALTER_CLIENT_QUOTAS, alter_client_quotas.Request([entry])
    )
    for answer in response.entries:
        if answer.error_code:
            raise RequestRefused(code_of(answer.error_code), answer.error_message)
