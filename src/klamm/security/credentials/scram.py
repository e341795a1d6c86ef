"""SCRAM credentials: how they are derived, kept, described and altered.

A broker keeps no password, only two keys that come of it; with the stored one a proof can be
checked but not made. They lie in the user's node beside its quotas, as one text a mechanism.
"""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from klamm.model import scram
from klamm.model.errors import ErrorCode, Refused
from klamm.model.scram import ROUNDS_MIN, ScramMechanism

ROUNDS_MAX: Final = 16_384
# The numbers of the wire.
MECHANISM_CODES: Final[Mapping[int, ScramMechanism]] = {
    1: ScramMechanism.SHA_256,
    2: ScramMechanism.SHA_512,
}
_CODES: Final = {mechanism: code for code, mechanism in MECHANISM_CODES.items()}
_FIELDS: Final = frozenset({"salt", "stored_key", "server_key", "iterations"})
_TEXT_SIZE_MAX: Final = 8192
# Longer ones could be stored, but not be read again, or not be logged in with.
USER_SIZE_MAX: Final = 512
SALT_SIZE_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The stored part of one user's password for one mechanism."""

    salt: bytes
    rounds: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)


class Look(NamedTuple):
    """All that a stranger sees of a credential, but for the salt itself."""

    rounds: int
    salt_size: int
    is_text: bool  # Kafka's tools draw letters and digits


# The look of nobody where nobody else has one.
PLAIN_LOOK: Final = Look(ROUNDS_MIN, 20, is_text=False)


def look_of(credential: ScramCredential) -> Look:
    """The look of a credential to whoever asks for it."""
    salt = credential.salt
    return Look(credential.rounds, len(salt), salt.isalnum() and salt == salt.lower())


def from_salted(
    mechanism: ScramMechanism, salt: bytes, rounds: int, salted: bytes
) -> ScramCredential:
    """The credential of a password that was salted by whoever sends it."""
    key = scram.client_key(mechanism, salted)
    return ScramCredential(
        salt, rounds, scram.stored_key(mechanism, key), scram.server_key(mechanism, salted)
    )


def from_password(
    mechanism: ScramMechanism, password: str, salt: bytes, rounds: int = ROUNDS_MIN
) -> ScramCredential:
    """The credential of a password. It takes milliseconds: not for a loop."""
    salted = scram.salted_password(mechanism, password, salt, rounds)
    return from_salted(mechanism, salt, rounds, salted)


def encode_credential(credential: ScramCredential) -> str:
    """The text in the user's node."""

    def text(data: bytes) -> str:
        return base64.b64encode(data).decode()

    return (
        f"salt={text(credential.salt)},stored_key={text(credential.stored_key)},"
        f"server_key={text(credential.server_key)},iterations={credential.rounds}"
    )


def decode_credential(text: str) -> ScramCredential | None:
    """The credential of a node; None where the text is no such thing."""
    pairs = [part.partition("=") for part in text[:_TEXT_SIZE_MAX].split(",")]
    fields = {name.strip(): value.strip() for name, _, value in pairs}
    if fields.keys() != _FIELDS or len(pairs) != len(_FIELDS) or len(text) > _TEXT_SIZE_MAX:
        return None
    try:
        keys = [
            base64.b64decode(fields[name], validate=True)
            for name in ("salt", "stored_key", "server_key")
        ]
        rounds = int(fields["iterations"])
    except (binascii.Error, ValueError):
        return None
    return ScramCredential(keys[0], rounds, keys[1], keys[2])


def credentials_of(config: Mapping[str, str]) -> dict[ScramMechanism, ScramCredential]:
    """The credentials among the settings of a user's node; spoilt ones are none."""
    found = {
        mechanism: decode_credential(config[mechanism.value])
        for mechanism in ScramMechanism
        if mechanism.value in config
    }
    return {mechanism: one for mechanism, one in found.items() if one is not None}


@dataclass(frozen=True, slots=True)
class Described:
    """The answer of DescribeUserScramCredentials for one user: mechanism codes and rounds."""

    user: str
    rounds: tuple[tuple[int, int], ...] = ()
    refused: Refused | None = None


Known = Mapping[str, Mapping[ScramMechanism, ScramCredential]]


def describe(known: Known, users: Sequence[str] | None) -> list[Described]:
    """All users with credentials by name, or those that were named."""
    if not users:
        return [_described(user, known[user]) for user in sorted(known) if known[user]]
    return [_describe_one(known, user, count) for user, count in Counter(users).items()]


def _describe_one(known: Known, user: str, count: int) -> Described:
    if count > 1:
        why = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        )
        return Described(user, refused=Refused(why, ErrorCode.DUPLICATE_RESOURCE))
    if not user:
        why = "Username must not be empty"
        return Described(user, refused=Refused(why, ErrorCode.RESOURCE_NOT_FOUND))
    if not known.get(user):
        why = f"Attempt to describe a user credential that does not exist: {user}"
        return Described(user, refused=Refused(why, ErrorCode.RESOURCE_NOT_FOUND))
    return _described(user, known[user])


def _described(user: str, held: Mapping[ScramMechanism, ScramCredential]) -> Described:
    return Described(user, tuple(sorted((_CODES[m], one.rounds) for m, one in held.items())))


@dataclass(frozen=True, slots=True)
class Deletion:
    """One deletion of AlterUserScramCredentials."""

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class Upsertion:
    """One new or changed credential; the password comes salted."""

    user: str
    mechanism: int
    rounds: int
    salt: bytes
    salted: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Altered:
    """The change to one user: a refusal, or the texts to set and the names to remove."""

    user: str
    refused: Refused | None = None
    sets: Mapping[str, str] = field(default_factory=dict, repr=False)
    removes: tuple[str, ...] = ()


def alter(
    known: Known, deletions: Iterable[Deletion], upsertions: Iterable[Upsertion]
) -> list[Altered]:
    """Every user of the request, each all or nothing."""
    by_user: dict[str, tuple[list[Deletion], list[Upsertion]]] = {}
    for deletion in deletions:
        by_user.setdefault(deletion.user, ([], []))[0].append(deletion)
    for upsertion in upsertions:
        by_user.setdefault(upsertion.user, ([], []))[1].append(upsertion)
    return [_alter_one(user, known.get(user, {}), *both) for user, both in by_user.items()]


def _alter_one(
    user: str,
    held: Mapping[ScramMechanism, ScramCredential],
    deletions: list[Deletion],
    upsertions: list[Upsertion],
) -> Altered:
    if refused := _alteration_fault(user, held, deletions, upsertions):
        return Altered(user, refused)
    sets = {}
    for one in upsertions:
        mechanism = MECHANISM_CODES[one.mechanism]
        credential = from_salted(mechanism, one.salt, one.rounds, one.salted)
        sets[mechanism.value] = encode_credential(credential)
    removes = tuple(MECHANISM_CODES[one.mechanism].value for one in deletions)
    return Altered(user, None, sets, removes)


def _value_fault(code: int, rounds: int = ROUNDS_MIN) -> Refused | None:
    if code not in MECHANISM_CODES:
        return Refused("Unknown SCRAM mechanism", ErrorCode.UNSUPPORTED_SASL_MECHANISM)
    if rounds < ROUNDS_MIN:
        return Refused("Too few iterations", ErrorCode.UNACCEPTABLE_CREDENTIAL)
    if rounds > ROUNDS_MAX:
        return Refused("Too many iterations", ErrorCode.UNACCEPTABLE_CREDENTIAL)
    return None


def _alteration_fault(
    user: str,
    held: Mapping[ScramMechanism, ScramCredential],
    deletions: list[Deletion],
    upsertions: list[Upsertion],
) -> Refused | None:
    """The first that is wrong, in Kafka's order."""
    if not user:
        return Refused("Username must not be empty", ErrorCode.UNACCEPTABLE_CREDENTIAL)
    codes = [one.mechanism for one in deletions] + [one.mechanism for one in upsertions]
    faults = [_value_fault(code) for code in codes[: len(deletions)]]
    faults += [_value_fault(one.mechanism, one.rounds) for one in upsertions]
    if found := [fault for fault in faults if fault is not None]:
        return found[-1]  # of several, Kafka tells the last
    if len(user) > USER_SIZE_MAX or any(len(one.salt) > SALT_SIZE_MAX for one in upsertions):
        return Refused(
            f"A user name has up to {USER_SIZE_MAX} characters, and a salt {SALT_SIZE_MAX} bytes",
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
        )
    if len(set(codes)) != len(codes):
        return Refused(
            "A user credential cannot be altered twice in the same request",
            ErrorCode.DUPLICATE_RESOURCE,
        )
    if any(MECHANISM_CODES[one.mechanism] not in held for one in deletions):
        return Refused(
            "Attempt to delete a user credential that does not exist",
            ErrorCode.RESOURCE_NOT_FOUND,
        )
    if not all(one.salted for one in upsertions):
        # Anybody knows what comes of a password that is none.
        why = "A salted password must not be empty"
        return Refused(why, ErrorCode.UNACCEPTABLE_CREDENTIAL)
    return None
