"""The part of `klamm kafka-configs` that is about users, clients and addresses: their quotas.

What Kafka's tool keeps of users besides, their SCRAM credentials, is in `credentials`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from klamm.client.aio import quotas
from klamm.client.aio.cluster import Client
from klamm.client.aio.quotas import CLIENT_ID, IP, USER, Condition, Match

TYPES: Final[Mapping[str, str]] = {"users": USER, "clients": CLIENT_ID, "ips": IP}
_WORDS: Final = {USER: "user-principal", CLIENT_ID: "client-id", IP: "ip"}
_OF_CLIENTS: Final = (
    "consumer_byte_rate",
    "controller_mutation_rate",
    "producer_byte_rate",
    "request_percentage",
)
_OF_ADDRESSES: Final = ("connection_creation_rate",)

Named = Sequence[tuple[str, str | None]]  # entity types with names: '' the default, None any


async def describe(client: Client, entities: Named) -> list[str]:
    """The lines to print."""
    conditions = [_condition(TYPES[kind], name) for kind, name in entities]
    return [_line(found) for found in await quotas.describe(client, conditions)]


async def alter(
    client: Client, entities: Named, additions: Mapping[str, str], removals: Sequence[str]
) -> None:
    """Set and lift quotas of one entity; ValueError where that makes no sense."""
    kinds = [kind for kind, _ in entities]
    rates = parse_rates(kinds, additions)
    unknown = [name for name in removals if name not in _known(kinds)]
    _refuse_unknown(kinds, unknown)
    entity = {TYPES[kind]: name or None for kind, name in entities}
    conditions = [_condition(TYPES[kind], name) for kind, name in entities]
    current = {key for found in await quotas.describe(client, conditions) for key in found.values}
    missing = [name for name in removals if name not in current]
    if missing:
        raise ValueError(f"Invalid config(s): {','.join(missing)}")
    await quotas.alter(client, entity, {**dict.fromkeys(removals), **rates})


def parse_rates(kinds: Sequence[str], additions: Mapping[str, str]) -> dict[str, float]:
    """The numbers to set."""
    _refuse_unknown(kinds, [name for name in additions if name not in _known(kinds)])
    rates: dict[str, float] = {}
    for name, text in additions.items():
        try:
            rates[name] = float(text)
        except ValueError:
            raise ValueError(f"Cannot parse quota configuration value for {name}: {text}") from None
    return rates


def _known(kinds: Sequence[str]) -> Sequence[str]:
    return _OF_ADDRESSES if "ips" in kinds else _OF_CLIENTS


def _refuse_unknown(kinds: Sequence[str], names: Sequence[str]) -> None:
    if names:
        kept = "quota and SCRAM credential" if list(kinds) == ["users"] else "quota"
        raise ValueError(
            f"Only {kept} configs can be added for '{','.join(kinds)}' using --bootstrap-server. "
            f"Unexpected config names: {','.join(names)}; there are {', '.join(_known(kinds))}"
        )


def _condition(entity_type: str, name: str | None) -> Condition:
    if name is None:
        return Condition(entity_type, Match.ANY)
    return (
        Condition(entity_type, Match.EXACT, name) if name else Condition(entity_type, Match.DEFAULT)
    )


def _line(found: quotas.EntityQuotas) -> str:
    whose = ", ".join(
        f"the default {word}" if found.entity[kind] is None else f"{word} '{found.entity[kind]}'"
        for kind, word in _WORDS.items()
        if kind in found.entity
    )
    values = ", ".join(f"{name}={value}" for name, value in sorted(found.values.items()))
    return f"Quota configs for {whose} are {values}"
