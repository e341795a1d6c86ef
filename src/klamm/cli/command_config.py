"""`--command-config FILE`: the properties of an admin client, as Kafka's tools read them.

Honoured are the name the client gives itself and its patience. What is about security is refused,
for klamm's listeners are PLAINTEXT and a client that was told to encrypt must not go on in clear
text. The rest tunes a client of Java, and means nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from klamm.cli import properties
from klamm.protocol.private import SOFTWARE_NAME

_REQUEST_MS: Final = 30_000
_API_MS: Final = 60_000
_SECURE: Final = ("ssl.", "sasl.", "security.providers")


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How a tool presents itself, and how long it waits."""

    client_id: str = SOFTWARE_NAME
    timeout_s: float = _API_MS / 1000
    request_timeout_s: float = _REQUEST_MS / 1000


def read(path: str | None) -> ClientSettings:
    """What a file asks for; ValueError where it cannot be had."""
    return of_properties(properties.read(Path(path))) if path is not None else ClientSettings()


def of_properties(texts: Mapping[str, str]) -> ClientSettings:
    """What these properties ask for."""
    protocol = texts.get("security.protocol", "PLAINTEXT")
    if protocol.upper() != "PLAINTEXT":
        raise ValueError(f"security.protocol={protocol}: klamm's listeners are PLAINTEXT")
    secure = sorted(name for name in texts if name.startswith(_SECURE))
    if secure:
        raise ValueError(f"klamm's listeners are PLAINTEXT: {', '.join(secure)} cannot be honoured")
    request_ms = _milliseconds(texts, "request.timeout.ms", _REQUEST_MS)
    # A request may not outlast its call: where only one of the two is named, the other follows.
    api_ms = _milliseconds(texts, "default.api.timeout.ms", max(_API_MS, request_ms))
    if api_ms < request_ms:
        if "request.timeout.ms" in texts:
            raise ValueError(
                "default.api.timeout.ms must be no smaller than request.timeout.ms: "
                f"{api_ms} < {request_ms}"
            )
        request_ms = api_ms
    return ClientSettings(
        texts.get("client.id", "") or SOFTWARE_NAME, api_ms / 1000, request_ms / 1000
    )


def _milliseconds(texts: Mapping[str, str], name: str, default: int) -> int:
    text = texts.get(name, str(default))
    if not text.isdigit():
        raise ValueError(f"{name} must be a number of milliseconds, not {text!r}")
    return int(text)
