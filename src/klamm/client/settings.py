"""The properties of a Kafka client, as `--command-config FILE` names them.

Honoured are the name the client gives itself, its patience, TLS and SASL. What is about security is
honoured or refused, never ignored: a client that was told to encrypt must not go on in clear text.
The rest tunes a client of Java: it has no effect here, and that is said.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from klamm.client import properties
from klamm.client.addresses import Address, parse_bootstrap, texts
from klamm.client.security import Security, is_about_security, security_of
from klamm.client.security.settings import check_names
from klamm.model.errors import UsageError
from klamm.protocol.private import SOFTWARE_NAME

_REQUEST_MS: Final = 30_000
_API_MS: Final = 60_000
_MS_MAX: Final = (1 << 31) - 1
_SINGLE: Final = re.compile(r"([a-z][a-z0-9]*(?:\.[a-z0-9]+)+)=(.*)", re.DOTALL)
_HONOURED: Final = frozenset(
    {"bootstrap.servers", "client.id", "default.api.timeout.ms", "request.timeout.ms"}
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The identity, timeouts and security of a client."""

    client_id: str = SOFTWARE_NAME
    timeout_s: float = _API_MS / 1000
    request_timeout_s: float = _REQUEST_MS / 1000
    security: Security = field(default_factory=Security)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """All that a worker needs to open a socket to a broker."""

    bootstrap: tuple[Address, ...]
    client_id: str = "klamm-spark"
    request_timeout_ms: int = _REQUEST_MS
    patience_ms: int = 120_000  # how long jobs of our own ride out brokers that do not answer
    security: Security = field(default_factory=Security)

    @property
    def servers(self) -> str:
        """The brokers to ask first, as they are written in an option."""
        return texts(self.bootstrap)


def read(sources: Iterable[str] | str | None) -> ClientSettings:
    """Reads client settings from files of properties, or single ones as name=value."""
    if isinstance(sources, str):
        sources = [sources]
    return of_properties(gathered(sources or ()))


def gathered(sources: Iterable[str]) -> dict[str, str]:
    """The properties of all sources, each a file or name=value; the last word counts."""
    found: dict[str, str] = {}
    for source in sources:
        single = _SINGLE.fullmatch(source)
        if single is not None:
            found[single[1]] = single[2].strip()
            continue
        try:
            found |= properties.read(Path(source))
        except ValueError as fault:
            raise UsageError(f"--command-config: {fault}") from None
    return found


def of_properties(texts: Mapping[str, str]) -> ClientSettings:
    """The client settings that these properties ask for."""
    security = _security(texts)
    request_ms = _milliseconds(texts, "request.timeout.ms", _REQUEST_MS)
    # A request may not outlast its call: where only one of the two is named, the other follows.
    api_ms = _milliseconds(texts, "default.api.timeout.ms", max(_API_MS, request_ms))
    if api_ms < request_ms:
        if "request.timeout.ms" in texts:
            raise UsageError(
                "default.api.timeout.ms must be no smaller than request.timeout.ms: "
                f"{api_ms} < {request_ms}"
            )
        request_ms = api_ms
    return ClientSettings(
        texts.get("client.id", "") or SOFTWARE_NAME, api_ms / 1000, request_ms / 1000, security
    )


def parse_connection(bootstrap: str, texts: Mapping[str, str]) -> ConnectionOptions:
    """The connection of a blocking client with these properties."""
    security = _security(texts)
    return ConnectionOptions(
        bootstrap=parse_bootstrap(bootstrap),
        client_id=texts.get("client.id", "") or "klamm-spark",
        request_timeout_ms=_milliseconds(texts, "request.timeout.ms", _REQUEST_MS),
        security=security,
    )


def _security(texts: Mapping[str, str]) -> Security:
    check_names(texts)
    idle = sorted(n for n in texts if n not in _HONOURED and not is_about_security(n))
    if idle:
        log.warning("these client properties have no effect here: %s", ", ".join(idle))
    security = security_of(texts.get)
    secure = sorted(n for n in texts if is_about_security(n) and n != "security.protocol")
    if security.protocol == "PLAINTEXT" and secure:
        raise UsageError(
            f"security.protocol is PLAINTEXT, which would ignore {', '.join(secure)}: "
            "set it to SSL, SASL_PLAINTEXT or SASL_SSL"
        )
    return security


def _milliseconds(texts: Mapping[str, str], name: str, default: int) -> int:
    text = texts.get(name, str(default)).strip()
    if not text.isdecimal() or not 1 <= int(text[:12]) <= _MS_MAX:
        raise UsageError(f"{name} must be a number of milliseconds, not {text!r}")
    return int(text)
