"""CreateDelegationToken (key 38), versions 0-3: a password that acts for somebody for a while.

From version 3 on the owner may be somebody else than the caller.
"""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, int16, int32, int64, octets, string


@dataclass(slots=True)
class CreatableRenewers:
    principal_type: str = string()
    principal_name: str = string()


@dataclass(slots=True)
class Request:
    owner_principal_type: str | None = string(default=None, nullable="3+", versions="3+")
    owner_principal_name: str | None = string(default=None, nullable="3+", versions="3+")
    renewers: list[CreatableRenewers] = array(CreatableRenewers)
    max_lifetime_ms: int = int64()


@dataclass(slots=True)
class Response:
    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string(versions="3+")
    token_requester_principal_name: str = string(versions="3+")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = octets()
    throttle_time_ms: int = int32()
