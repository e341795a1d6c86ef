"""This broker's own login to other brokers, from the JAAS text of the listener between them."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from klamm.client.errors import ClientError
from klamm.client.security import Security
from klamm.client.security.tokens import TokenEndpoint, TokenSource, source_of
from klamm.model.errors import Refused, UsageError
from klamm.security.listeners.overrides import ListenerSettings
from klamm.security.sasl.config import own_login
from klamm.security.sasl.jaas import Jaas, parse_jaas

_OAUTH: Final = "OAUTHBEARER"
_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
_CLAIM: Final = "unsecuredLoginStringClaim_"
_LIFETIME_S: Final = 3600

LogIn = Callable[[Security], Security]


def log_in_as(settings: ListenerSettings) -> LogIn | Refused:
    """The way to add this broker's login to a connection's security."""
    mechanism = settings.get(_MECHANISM) or "GSSAPI"
    if mechanism == _OAUTH:
        source = _token_source(settings)
        if isinstance(source, Refused):
            return source
        return lambda bare: replace(bare, mechanism=_OAUTH, token=source)
    login = own_login(settings)
    if isinstance(login, Refused):
        return login
    return lambda bare: replace(
        bare,
        mechanism=login.mechanism,
        username=login.username,
        password=login.password.reveal(),
    )


def _token_source(settings: ListenerSettings) -> TokenSource | Refused:
    jaas = parse_jaas(settings.get("sasl.jaas.config", _OAUTH) or "")
    if isinstance(jaas, Refused):
        return Refused(f"{settings.listener}, {_OAUTH}: {jaas.why}")
    url = settings.get("sasl.oauthbearer.token.endpoint.url", _OAUTH)
    if not url:
        return _unsecured(jaas, settings.listener)
    try:
        source = source_of(
            url,
            jaas.option("clientId") or "",
            jaas.option("clientSecret") or "",
            jaas.option("scope") or "",
        )
    except UsageError as fault:
        return Refused(str(fault))
    if isinstance(source, TokenEndpoint):
        source = replace(
            source,
            timeout_s=_ms(settings, "sasl.login.read.timeout.ms", 10_000) / 1000,
            encodes=(settings.get("sasl.oauthbearer.header.urlencode", _OAUTH) or "").lower()
            == "true",
        )
    return _Retried(
        source,
        _ms(settings, "sasl.login.retry.backoff.ms", 100) / 1000,
        _ms(settings, "sasl.login.retry.backoff.max.ms", 10_000) / 1000,
    )


def _ms(settings: ListenerSettings, name: str, default: int) -> int:
    text = (settings.get(name, _OAUTH) or "").strip()
    return int(text) if text.isdecimal() else default


@dataclass(frozen=True, slots=True)
class _Retried:
    """A source that is asked again for a while when it has no token. It waits: not for a loop."""

    source: TokenSource
    pause_s: float
    patience_s: float

    def __call__(self) -> str:
        until, pause_s = time.monotonic() + self.patience_s, self.pause_s
        while True:
            try:
                return self.source()
            except ClientError:
                if time.monotonic() + pause_s > until:
                    raise
                time.sleep(pause_s)
                pause_s = max(2 * pause_s, 0.01)


@dataclass(frozen=True, slots=True)
class _Unsecured:
    """Tokens of our own making that nobody signed: for development."""

    claims: tuple[tuple[str, str], ...]

    def __call__(self) -> str:
        now_s = time.time()
        claims = {**dict(self.claims), "iat": now_s, "exp": now_s + _LIFETIME_S}
        return f"{_part({'alg': 'none'})}.{_part(claims)}."


def _part(fields: dict[str, object]) -> str:
    text = json.dumps(fields, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def _unsecured(jaas: Jaas, listener: str) -> TokenSource | Refused:
    claims = {
        name.removeprefix(_CLAIM): jaas.option(name) or ""
        for name in jaas.options
        if name.startswith(_CLAIM)
    }
    if not claims.get("sub"):
        return Refused(
            f"Brokers log in to each other by {_OAUTH} on {listener}: set "
            "sasl.oauthbearer.token.endpoint.url, or for a test unsecuredLoginStringClaim_sub in "
            "its JAAS text"
        )
    return _Unsecured(tuple(claims.items()))
