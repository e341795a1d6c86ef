"""SaslHandshake (key 17), versions 0-1. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, int16, string


@dataclass(slots=True)
class Request:
    mechanism: str = string()


@dataclass(slots=True)
class Response:
    error_code: int = int16()
    mechanisms: list[str] = array("string")
