"""The secrets of a secured cluster, kept in `security` below its data directory.

What is there is used again, so that clients of yesterday get in today: the authority, the users
and their passwords, the key that signs tokens, the brokers' own password. What is missing is drawn.
A broker's certificate is made anew where it is about to end or lacks a name. Files are written
whole or not at all; nobody but their owner may read them.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from klamm.log.disk.files import make_directory, sync_directory, tighten, tighten_below
from klamm.log.disk.files import replace_file as replace_bytes
from klamm.model.errors import UsageError
from klamm.secured import libraries
from klamm.secured.wishes import BROKER

if TYPE_CHECKING:
    from klamm.secured.authority import Authority, Pair
    from klamm.secured.issuer import Issuer

DIRECTORY: Final = "security"
AUTHORITY: Final = "ca.pem"
AUTHORITY_KEY: Final = "ca.key"
BROKER_STORE: Final = "broker.pem"
SIGNING_KEY: Final = "tokens.key"
JWKS: Final = "jwks.json"
SECRETS: Final = "secrets.json"
_SIZE_MAX: Final = 4 << 20
_RENEW_BEFORE: Final = timedelta(days=30)
# The brokers' password, what delegation tokens are made with, what encrypts stored passwords.
_DRAWN: Final = ("broker", "tokens", "encoder")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vault:
    """All secrets of one cluster, and the directory they are in."""

    directory: Path
    authority: Authority = field(repr=False)
    issuer: Issuer | None = field(repr=False)
    drawn: Mapping[str, str] = field(repr=False)
    passwords: Mapping[str, str] = field(repr=False)  # of users that are known to the files
    fresh: frozenset[str]  # users whose password was asked for, or drawn, just now

    def path(self, name: str) -> Path:
        """The path of one of the files."""
        return self.directory / name

    def forget(self, users: Iterable[str]) -> Vault:
        """The vault without some users; also on the disk."""
        gone = frozenset(users)
        kept = {name: text for name, text in self.passwords.items() if name not in gone}
        _save_secrets(self.directory, self.drawn, kept)
        return Vault(
            directory=self.directory,
            authority=self.authority,
            issuer=self.issuer,
            drawn=self.drawn,
            passwords=kept,
            fresh=self.fresh - gone,
        )


def exists(data: Path) -> bool:
    """Whether a data directory is that of a secured cluster."""
    return (data / DIRECTORY / SECRETS).exists()


def open_vault(
    data: Path,
    users: Mapping[str, str | None],
    hosts: Iterable[str],
    now: datetime,
    *,
    signs_tokens: bool,
) -> Vault:
    """The secrets of this data directory, with these users and a certificate for these hosts."""
    directory = data / DIRECTORY
    make_directory(str(directory))
    tighten_below(str(directory))
    tighten(str(directory))
    authority = _authority(directory, now)
    _renew_broker(directory, authority, frozenset(hosts), now)
    signer = _issuer(directory) if signs_tokens else None
    drawn, passwords = _load_secrets(directory)
    drawn = {name: drawn.get(name) or draw() for name in _DRAWN}
    asked = {name: text for name, text in users.items() if text is not None}
    missing = {name: draw() for name in users if name not in passwords and name not in asked}
    fresh = {**asked, **missing}
    if fresh or not exists(data):
        passwords = {**passwords, **fresh}
        _save_secrets(directory, drawn, passwords)
    return Vault(
        directory=directory,
        authority=authority,
        issuer=signer,
        drawn=drawn,
        passwords=passwords,
        fresh=frozenset(fresh),
    )


def draw() -> str:
    """A password that nobody guesses, of letters that need no quoting anywhere."""
    return secrets.token_hex(24)


def _authority(directory: Path, now: datetime) -> Authority:
    page = libraries.authority()
    certificate, key = directory / AUTHORITY, directory / AUTHORITY_KEY
    if certificate.exists() and key.exists():
        found: Authority = page.Authority(page.Pair(read(certificate), read(key)))
        if found.ends <= now:
            raise UsageError(
                f"the authority in {certificate} has expired: remove {certificate} and {key} to "
                "have a new one made, and give the new clients/ca.pem to every client"
            )
        return found
    made: Authority = page.Authority.make(f"klamm {secrets.token_hex(4)}", now)
    # The certificate last: it says that both are there.
    write(key, made.pair.key)
    write(certificate, made.certificate)
    return made


def _renew_broker(
    directory: Path, authority: Authority, hosts: frozenset[str], now: datetime
) -> None:
    """Makes the brokers' certificate, where there is none that will do."""
    page, path = libraries.authority(), directory / BROKER_STORE
    if path.exists():
        pem = read(path)
        is_good = (
            page.is_signed_by(pem, authority)
            and page.ends_of(pem) - now > _RENEW_BEFORE
            and hosts <= page.hosts_of(pem)
        )
        if is_good:
            return
    pair: Pair = authority.issue(BROKER, now, hosts=sorted(hosts))
    write(path, pair.both)


def _issuer(directory: Path) -> Issuer:
    page, path = libraries.issuer(), directory / SIGNING_KEY
    signer: Issuer = page.Issuer(read(path)) if path.exists() else page.Issuer.make()
    write(path, signer.key)
    write(directory / JWKS, signer.jwks)
    return signer


def _load_secrets(directory: Path) -> tuple[dict[str, str], dict[str, str]]:
    path = directory / SECRETS
    if not path.exists():
        return {}, {}
    try:
        found = json.loads(read(path))
        return _texts(found["drawn"]), _texts(found["users"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(
            f"{path} is damaged: restore it, or remove it to have new passwords drawn for "
            "admin and every --user"
        ) from None


def _texts(found: Any) -> dict[str, str]:
    if not all(isinstance(text, str) for text in found.values()):
        raise TypeError("not a text")
    return dict(found)


def _save_secrets(directory: Path, drawn: Mapping[str, str], users: Mapping[str, str]) -> None:
    text = json.dumps({"version": 1, "drawn": dict(drawn), "users": dict(users)}, indent=2)
    write(directory / SECRETS, text + "\n")


def read(path: Path) -> str:
    """A small file of the vault, which nobody else may read; UsageError says what is wrong."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(_SIZE_MAX + 1)
        if len(content) > _SIZE_MAX:
            raise UsageError(f"{path} is too long to be what it should be")
        text = content.decode()
    except (OSError, UnicodeDecodeError) as fault:
        raise UsageError(f"{path} cannot be read: {fault}") from fault
    if mode & 0o077:
        raise UsageError(f"others can read {path}: run chmod 600 {path}, and think of who did")
    return text


def write(path: Path, text: str) -> None:
    """Write a file that only its owner may read, whole or not at all."""
    replace_bytes(str(path), text.encode())
    sync_directory(str(path.parent))
