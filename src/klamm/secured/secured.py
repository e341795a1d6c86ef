"""One secured cluster: from wishes to settings, credentials, and the files of its clients.

The order of a start: `open` reads or draws the secrets, the brokers get `settings`, `seed` puts the
users into the store, and when the brokers listen `write_clients` writes the clients' files.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from klamm.model.errors import UsageError
from klamm.secured import client_files, libraries, vault
from klamm.secured.broker_settings import broker_settings, merged
from klamm.secured.client_settings import Login, settings_for
from klamm.secured.seeding import Seeded, seed
from klamm.secured.wishes import ADMIN, ClusterAddresses, ListenerKind, Security
from klamm.security.listeners.placing import EVERYWHERE
from klamm.store.port import Store

if TYPE_CHECKING:
    from klamm.secured.authority import Pair

log = logging.getLogger(__name__)

_LOCAL: Final = ("localhost", "127.0.0.1", "::1")
_EXPIRED: Final = timedelta(days=-1)
_GUESSED: Final = "not-the-password"

Addresses = Mapping[ListenerKind, str]  # host:port,... of all brokers


class Secured:
    """The secrets of a cluster and what is made of them."""

    def __init__(
        self, wishes: Security, kept: vault.Vault, data: Path, place: ClusterAddresses
    ) -> None:
        self.wishes = wishes
        self._vault = kept
        self._data = data
        self._place = place
        self._addresses: Addresses = {}
        self._seeded = Seeded()

    @classmethod
    def open(cls, data: Path, wishes: Security, place: ClusterAddresses) -> Secured:
        """The secrets of this data directory; what is missing is made."""
        kept = vault.open_vault(
            data,
            wishes.passwords,
            hosts_for(place),
            _now(),
            signs_tokens="OAUTHBEARER" in wishes.mechanisms,
        )
        return cls(wishes, kept, data, place)

    def settings(self, given: Mapping[str, str]) -> dict[str, str]:
        """The brokers' settings: those that somebody gave, and those that lock."""
        return merged(broker_settings(self.wishes, self._vault, self._place), given)

    async def seed(self, store: Store) -> None:
        """Puts the users into the store, and notices who was changed or removed there."""
        self._seeded = await seed(store, self._vault, self.wishes.scram)
        if gone := self._seeded.removed:
            self._vault = self._vault.forget(gone)
            log.warning(
                "%s is no user of this cluster any more, and its files go: name it with --user to "
                "have it back",
                ", ".join(sorted(gone)),
            )

    def write_clients(self, addresses: Addresses) -> None:
        """Writes the clients' files, now that it is known where brokers listen."""
        self._addresses = dict(addresses)
        client_files.remove(self.clients, self._seeded.removed)
        client_files.write_authority(self.clients, self._vault.authority.certificate)
        for user in self._vault.passwords:
            if user not in self._seeded.changed:
                client_files.write(self.clients, user, self.login(user))
        for user in sorted(self._seeded.changed):
            log.warning(
                "the password of %s was changed while the cluster ran: its files in %s stay as "
                "they are",
                user,
                self.clients,
            )

    @property
    def clients(self) -> Path:
        """The directory of the clients' files."""
        return self._data / client_files.DIRECTORY

    @property
    def users(self) -> tuple[str, ...]:
        """The users whose passwords are known here."""
        return tuple(self._vault.passwords)

    def password(self, user: str) -> str:
        """The password of a user, as it was given or drawn."""
        try:
            return self._vault.passwords[user]
        except KeyError:
            known = ", ".join(self.users)
            raise UsageError(f"there is no user {user} in this cluster, only {known}") from None

    def client_config(self, user: str, client: str, **how: Any) -> dict[str, Any]:
        """The settings with which a client comes in as this user; see `login` for `how`."""
        return settings_for(client, self.login(user, **how))

    def login(
        self,
        user: str = ADMIN,
        *,
        listener: str | None = None,
        mechanism: str | None = None,
        password: str | None = None,
        wrong: str = "",
    ) -> Login:
        """All that this user shows at a listener.

        `wrong` makes it fail in one way: "password" (or a token that nobody signed), "expired" (the
        certificate, or the token), "stranger" (a certificate of another authority), "authority"
        (the client trusts another authority than the brokers').
        """
        kind = self._kind(listener)
        chosen = self._mechanism(kind, mechanism)
        shown = self.password(user) if password is None else password
        if wrong and wrong not in _WRONGS:
            raise UsageError(f"wrong= is one of {', '.join(_WRONGS)}, not {wrong}")
        files = _Files(self, user, wrong)
        proofs: dict[str, Any] = {}
        if _shows_certificate(kind, wrong):
            proofs |= files.certificate()
        if chosen == "OAUTHBEARER":
            proofs |= files.token()
        return Login(
            servers=self._addresses.get(kind, ""),
            listener=kind,
            mechanism=chosen,
            user=user,
            password=_GUESSED if wrong == "password" else shown,
            authority=str(files.authority()) if kind.is_encrypted else "",
            **proofs,
        )

    def certificate(self, user: str, *, life: timedelta | None = None) -> Pair:
        """A certificate for a user, from this cluster's authority."""
        page = libraries.authority()
        made: Pair = self._vault.authority.issue(user, _now(), life=life or page.LIFE)
        return made

    def token(self, user: str, *, life: timedelta = timedelta(hours=1)) -> tuple[str, float]:
        """A signed token for a user, and when it ends."""
        if self._vault.issuer is None:
            raise UsageError("this cluster takes no tokens: add OAUTHBEARER to its mechanisms")
        now = _now()
        return self._vault.issuer.token(user, now, life=life), (now + life).timestamp()

    def _kind(self, listener: str | None) -> ListenerKind:
        if listener is None:
            return self.wishes.kinds[0]
        if listener not in self.wishes.listeners:
            had = ", ".join(self.wishes.listeners)
            raise UsageError(f"this cluster has no listener {listener}, only {had}")
        return ListenerKind(listener)

    def _mechanism(self, kind: ListenerKind, mechanism: str | None) -> str:
        if mechanism is None:
            return self.wishes.mechanisms[0] if kind.has_sasl else ""
        if not kind.has_sasl:
            raise UsageError(f"nobody signs in on {kind}: leave mechanism= out")
        if mechanism not in self.wishes.mechanisms:
            had = ", ".join(self.wishes.mechanisms)
            raise UsageError(f"this cluster has no mechanism {mechanism}, only {had}")
        return mechanism


_WRONGS: Final = ("password", "expired", "stranger", "authority")


class _Files:
    """The PEM and token files that one login refers to."""

    def __init__(self, secured: Secured, user: str, wrong: str) -> None:
        self._secured = secured
        self._user = user
        self._wrong = wrong

    @property
    def _stem(self) -> str:
        # No name of a user has a tilde in it.
        return f"{self._user}~{self._wrong}" if self._wrong else self._user

    def authority(self) -> Path:
        if self._wrong != "authority":
            return self._secured.clients / client_files.AUTHORITY
        return client_files.write_extra(
            self._secured.clients, "ca~stranger.pem", _stranger().certificate
        )

    def certificate(self) -> dict[str, str]:
        return client_files.write_pair(self._secured.clients, self._stem, self._pair())

    def _pair(self) -> Pair:
        if self._wrong == "stranger":
            made: Pair = _stranger().issue(self._user, _now())
            return made
        return self._secured.certificate(
            self._user, life=_EXPIRED if self._wrong == "expired" else None
        )

    def token(self) -> dict[str, Any]:
        text, _ = self._token()
        path = client_files.write_extra(self._secured.clients, f"{self._stem}.token", text)
        return {"token": self._token, "token_file": str(path)}

    def _token(self) -> tuple[str, float]:
        if self._wrong == "password":
            return str(libraries.issuer().Issuer.make().token(self._user, _now())), _ends()
        if self._wrong == "expired":
            # What a client would notice by itself never reaches a broker.
            return self._secured.token(self._user, life=_EXPIRED)[0], _ends()
        return self._secured.token(self._user)


def refuse_open(data: Path) -> None:
    """UsageError where an open cluster is to be made of the data of a secured one."""
    if vault.exists(data):
        raise UsageError(
            f"{data} belongs to a secured cluster: start it with --secure (Cluster: security=), "
            f"choose another --data, or remove {data / vault.DIRECTORY} to open it to everybody"
        )


def hosts_for(place: ClusterAddresses) -> frozenset[str]:
    """The names and addresses by which a client may call the brokers."""
    named = {place.host, place.advertise, socket.gethostname()} - EVERYWHERE
    return frozenset((*_LOCAL, *named))


def _shows_certificate(kind: ListenerKind, wrong: str) -> bool:
    return kind is ListenerKind.MTLS or (kind.is_encrypted and wrong in ("expired", "stranger"))


def _stranger() -> Any:
    return libraries.authority().Authority.make("a stranger", _now())


def _now() -> datetime:
    return datetime.now(UTC)


def _ends() -> float:
    return (_now() + timedelta(hours=1)).timestamp()
