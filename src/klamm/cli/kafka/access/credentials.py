"""The part of `klamm kafka-configs` that is about SCRAM credentials of users.

As in Kafka's tool, the password is salted and hashed here and never sent. Unlike there, it is not
repeated when something fails.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from klamm.client.aio import users
from klamm.client.aio.cluster import Client
from klamm.client.aio.users import UserCredentials
from klamm.model.errors import ErrorCode
from klamm.model.scram import ROUNDS_MIN, ScramMechanism

NAMES: Final = tuple(mechanism.value for mechanism in ScramMechanism)
_CREDENTIAL: Final = re.compile(r"(?:iterations=(-?[0-9]{1,9}),)?password=(.*)", re.DOTALL)
_SECRET: Final = re.compile(r"(password=)[^\]]*", re.IGNORECASE)


class NewCredential(NamedTuple):
    """A credential to set."""

    mechanism: ScramMechanism
    rounds: int
    password: str

    def __repr__(self) -> str:
        return f"NewCredential({self.mechanism}, {self.rounds} rounds)"


def is_about(additions: Mapping[str, str], removals: Sequence[str]) -> bool:
    """Whether some of the settings are credentials; ValueError where others are not."""
    names = (*additions, *removals)
    mine = [name for name in names if name.upper() in NAMES]
    if mine and len(mine) != len(names):
        raise ValueError(
            "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using "
            "--bootstrap-server."
        )
    return bool(mine)


def parse(name: str, text: str) -> NewCredential:
    """Reads `iterations=8192,password=...`; a mistake is told without the password."""
    mechanism = ScramMechanism(name.upper())
    found = _CREDENTIAL.fullmatch(text)
    if found is None or not found[2]:
        raise ValueError(
            f"Invalid credential property SCRAM_{mechanism.name}: write "
            f"{mechanism}=[iterations={ROUNDS_MIN},password=...]"
        )
    rounds = int(found[1] or -1)
    if rounds == -1:
        rounds = ROUNDS_MIN
    if rounds < ROUNDS_MIN:
        raise ValueError(
            f"Iterations {rounds} is less than the minimum {ROUNDS_MIN} required for {mechanism}"
        )
    return NewCredential(mechanism, rounds, found[2])


async def alter(
    client: Client, user: str | None, additions: Mapping[str, str], removals: Sequence[str]
) -> None:
    """Sets and removes credentials of one user in one request."""
    if not user:
        raise ValueError(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM "
            "Credentials using --bootstrap-server."
        )
    made = [parse(name, text) for name, text in additions.items()]
    change = users.Change(
        [users.deletion(user, ScramMechanism(name.upper())) for name in removals],
        [
            await users.upsertion(user, one.password, one.mechanism, rounds=one.rounds)
            for one in made
        ],
    )
    await users.alter(client, change)


async def describe(client: Client, user: str | None) -> list[str]:
    """The lines to print; a user without credentials has none."""
    found = await users.describe(client, None if user is None else [user])
    return [line for one in found if (line := _line(one))]


def _line(one: UserCredentials) -> str:
    if one.error is ErrorCode.RESOURCE_NOT_FOUND:
        return ""
    if one.error:
        return (
            f"Error retrieving SCRAM credential configs for user-principal '{one.user}': "
            f"{one.error.name}: {one.message}"
        )
    rounds = ", ".join(f"{name}=iterations={count}" for name, count in one.rounds.items())
    return f"SCRAM credential configs for user-principal '{one.user}' are {rounds}"


def without_secrets(text: str) -> str:
    """A command line that may be repeated."""
    return _SECRET.sub(r"\1[hidden]", text)
