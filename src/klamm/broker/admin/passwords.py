"""Passwords among dynamic settings: hidden in the store, open nowhere but in memory.

They are kept as Kafka keeps them (`password.encoder.*`), for one broker each. One that cannot be
opened, because the secret is another one, is left out and told of by its name. After a change of
the secret, `password.encoder.old.secret` opens what was hidden before, and it is hidden anew.
"""

from __future__ import annotations

import importlib.util
import logging
import secrets
from collections.abc import Collection, Mapping
from typing import Final

from klamm.model.errors import Refused, UsageError
from klamm.model.settings import BrokerSettings
from klamm.security.credentials.encoder import (
    SALT_SIZE,
    VECTOR_SIZES,
    EncoderSettings,
    decode_any,
    encode_password,
)
from klamm.security.listeners.reconfiguration import is_password
from klamm.security.secret import Secret

log = logging.getLogger(__name__)

_SECRET: Final = "password.encoder.secret"
_KNOWN_MAX: Final = 1000


class Passwords:
    """The passwords among one broker's dynamic settings."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._encoder = _encoder_of(settings)
        old = settings.str("password.encoder.old.secret")
        self._old_secret = Secret(old) if old else None
        # To open one takes milliseconds, and they come again with every change of a setting.
        self._known: dict[str, tuple[Secret, bool] | Refused] = {}

    def opened(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Settings as they are in force: passwords in the clear, without those nobody can open."""
        found: dict[str, str] = {}
        for name, text in texts.items():
            clear = self._open(text) if is_password(name) else None
            if isinstance(clear, Refused):
                log.error("%s of this broker is left out: %s", name, clear.why)
            else:
                found[name] = text if clear is None else clear[0].reveal()
        return found

    def hidden(
        self, texts: Mapping[str, str], stored: Mapping[str, str], kept: Collection[str] = ()
    ) -> dict[str, str]:
        """Settings as they are stored; what has not changed stays as it was stored before.

        Those `kept` that nobody can open stay as well: their secret may come back.
        """
        before = self.opened({name: text for name, text in stored.items() if name in texts})
        found: dict[str, str] = {}
        for name, text in texts.items():
            if not is_password(name):
                found[name] = text
            elif before.get(name) == text and not self._is_old(stored[name]):
                found[name] = stored[name]
            else:
                found[name] = self._hide(text)
        return {name: stored[name] for name in kept if name not in texts} | found

    def locked(self, stored: Mapping[str, str]) -> set[str]:
        """The names of passwords that nobody can open."""
        return {
            name
            for name, text in stored.items()
            if is_password(name) and isinstance(self._open(text), Refused)
        }

    def is_outdated(self, stored: Mapping[str, str]) -> bool:
        """Whether some password has to be hidden anew, because only the old secret opens it."""
        return any(is_password(name) and self._is_old(text) for name, text in stored.items())

    def _is_old(self, text: str) -> bool:
        clear = self._open(text)
        return not isinstance(clear, Refused) and clear[1]

    def _open(self, text: str) -> tuple[Secret, bool] | Refused:
        if self._encoder is None:
            return Refused(f"it is hidden, and {_SECRET} is not set")
        known = self._known.get(text)
        if known is None:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            known = self._known[text] = decode_any(self._encoder.secret, self._old_secret, text)
        return known

    def _hide(self, text: str) -> str:
        assert self._encoder is not None, "who sets a password without a secret is refused before"
        entropy = secrets.token_bytes(SALT_SIZE + VECTOR_SIZES[self._encoder.cipher])
        return encode_password(self._encoder, Secret(text), entropy)


def _encoder_of(settings: BrokerSettings) -> EncoderSettings | None:
    secret = settings.str(_SECRET)
    if not secret:
        return None
    if importlib.util.find_spec("cryptography") is None:
        raise UsageError(f"{_SECRET} needs the package `cryptography`, of the extra `secure`")
    return EncoderSettings(
        secret=Secret(secret),
        key_factory=settings.str("password.encoder.keyfactory.algorithm") or "PBKDF2WithHmacSHA512",
        cipher=settings.str("password.encoder.cipher.algorithm"),
        key_bits=settings.int("password.encoder.key.length"),
        rounds=settings.int("password.encoder.iterations"),
    )
