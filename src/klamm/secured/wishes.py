"""The wishes for a secured cluster: listeners, mechanisms, users.

There are four kinds of listeners, each at most once:

| Listener | TLS | Who somebody is |
|---|---|---|
| SASL_SSL | yes | whoever signed in |
| SASL_PLAINTEXT | no | whoever signed in; passwords of PLAIN can be overheard |
| MTLS | yes | the name in the certificate, which everybody must show |
| SSL | yes | the name in the certificate, or ANONYMOUS without one |

The first one named is also the one between brokers. A user is the same principal on all of them:
`User:alice` is who signed in as alice, who has a token for alice, and whose certificate says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from klamm.model.errors import UsageError

ADMIN: Final = "admin"
# The brokers' own name, on every listener.
BROKER: Final = "klamm-broker"
DEFAULT_MECHANISM: Final = "SCRAM-SHA-512"
MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER")
# Names become parts of file names, of JAAS texts and of certificates.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PASSWORD_MAX: Final = 256
# Names that brokers have, or that would be those of other files among the clients'.
_TAKEN: Final = frozenset({BROKER, "ca"})
_ENDINGS: Final = (".librdkafka", ".keystore")


class ListenerKind(StrEnum):
    """The kinds of listeners, by their names."""

    SASL_SSL = "SASL_SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    MTLS = "MTLS"
    SSL = "SSL"

    @property
    def protocol(self) -> str:
        """The security protocol, as Kafka names it."""
        return "SSL" if self is ListenerKind.MTLS else self.value

    @property
    def is_encrypted(self) -> bool:
        return self is not ListenerKind.SASL_PLAINTEXT

    @property
    def has_sasl(self) -> bool:
        return self.value.startswith("SASL_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """A secured cluster, as `Cluster(security=...)` takes it.

    `users` are names, or names with passwords; a user without one gets a password drawn by lot.
    The user `admin` is always there and may do everything. With `acls=False` everybody who has
    signed in may.
    """

    users: Iterable[str] | Mapping[str, str | None] = field(default=(), repr=False)
    listeners: tuple[str, ...] = (ListenerKind.SASL_SSL,)
    mechanisms: tuple[str, ...] = ("SCRAM-SHA-512", "SCRAM-SHA-256")
    acls: bool = True

    def __post_init__(self) -> None:
        given: Mapping[str, str | None]
        if isinstance(self.users, Mapping):
            given = dict(self.users)
        else:
            listed = [self.users] if isinstance(self.users, str) else list(self.users)
            given = dict(map(parse_user, listed))
        object.__setattr__(self, "users", given)
        object.__setattr__(self, "listeners", _listed(self.listeners))
        object.__setattr__(self, "mechanisms", _listed(self.mechanisms))
        _check(self)

    @property
    def passwords(self) -> Mapping[str, str | None]:
        """The users by name, with the password that was asked for, or None."""
        assert isinstance(self.users, Mapping), "made one when this was built"
        return {ADMIN: None, **self.users}

    @property
    def scram(self) -> tuple[str, ...]:
        """The mechanisms whose credentials are in the store."""
        return tuple(name for name in self.mechanisms if name.startswith("SCRAM-"))

    @property
    def kinds(self) -> tuple[ListenerKind, ...]:
        """The listeners, the one between brokers first."""
        return tuple(map(ListenerKind, self.listeners))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAddresses:
    """The addresses at which brokers listen, and those that clients are sent to."""

    host: str
    port: int  # of the first broker's first listener; 0: any
    brokers: int
    advertise: str


def security_of(given: object) -> Security | None:
    """The wishes that somebody gave: True, a listener's name, a mapping or a `Security`."""
    match given:
        case None | False:
            return None
        case True:
            return Security()
        case Security():
            return given
        case str():
            return Security(listeners=(given,))
        case Mapping():
            return _of_mapping(given)
    raise UsageError(
        "security= takes True, the name of a listener, a mapping or a klamm.Security, not "
        f"{type(given).__name__}"
    )


def _of_mapping(given: Mapping[str, object]) -> Security:
    known = Security.__dataclass_fields__
    strange = [name for name in given if name not in known]
    if strange:
        raise UsageError(f"security= has no {strange[0]}: there are {', '.join(known)}")
    return Security(**given)  # type: ignore[arg-type]


def parse_user(text: str) -> tuple[str, str | None]:
    """Reads `NAME` or `NAME:PASSWORD`."""
    name, colon, password = text.partition(":")
    return name, password if colon else None


def _listed(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _check(wishes: Security) -> None:
    named = wishes.listeners
    strange = [name for name in named if name not in ListenerKind.__members__]
    if strange or not named or len(set(named)) != len(named):
        said = strange[0] if strange else ", ".join(named) or "none"
        raise UsageError(f"listeners are some of {', '.join(ListenerKind)}, each once, not {said}")
    unknown = [name for name in wishes.mechanisms if name not in MECHANISMS]
    if unknown or not wishes.mechanisms:
        said = unknown[0] if unknown else "none"
        raise UsageError(f"mechanisms are some of {', '.join(MECHANISMS)}, not {said}")
    if wishes.kinds[0].has_sasl and not wishes.scram:
        raise UsageError(
            f"brokers sign in to each other on {named[0]} by SCRAM: add {DEFAULT_MECHANISM} "
            "to the mechanisms"
        )
    for name, password in wishes.passwords.items():
        _check_user(name, password)


def check_name(name: str) -> None:
    """Refuses a name that cannot be that of a file as well."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"a user's name has up to 64 letters, digits, '.', '_' and '-', and begins with a "
            f"letter or digit: {name!r} does not"
        )


def _check_user(name: str, password: str | None) -> None:
    check_name(name)
    if name in _TAKEN or name.endswith(_ENDINGS):
        raise UsageError(f"{name} is the name of something else here: choose another for the user")
    if password is not None:
        check_password(name, password)


def check_password(name: str, password: str) -> None:
    """Refuses a password that a file of properties cannot hold."""
    if not password:
        raise UsageError(f"the password of {name} is empty: leave it out to have one drawn")
    if len(password) > _PASSWORD_MAX or not password.isprintable() or password != password.strip():
        raise UsageError(
            f"the password of {name} must be at most {_PASSWORD_MAX} printable characters without "
            "blanks at its ends"
        )
