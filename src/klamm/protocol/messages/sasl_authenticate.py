"""SaslAuthenticate (key 36), versions 0-2. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import int16, int64, octets, string


@dataclass(slots=True)
class Request:
    auth_bytes: bytes = octets()


@dataclass(slots=True)
class Response:
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    auth_bytes: bytes = octets()
    session_lifetime_ms: int = int64(versions="1+")
