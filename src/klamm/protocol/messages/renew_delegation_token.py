"""RenewDelegationToken (key 39), versions 0-2: let a token live longer."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import int16, int32, int64, octets


@dataclass(slots=True)
class Request:
    hmac: bytes = octets()
    renew_period_ms: int = int64()


@dataclass(slots=True)
class Response:
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
