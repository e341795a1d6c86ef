"""DescribeDelegationToken (key 41), versions 0-3: the tokens that the caller may see."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, int16, int32, int64, octets, string


@dataclass(slots=True)
class DescribeDelegationTokenOwner:
    principal_type: str = string()
    principal_name: str = string()


@dataclass(slots=True)
class Request:
    owners: list[DescribeDelegationTokenOwner] | None = array(
        DescribeDelegationTokenOwner, nullable="0+"
    )


@dataclass(slots=True)
class DescribedDelegationTokenRenewer:
    principal_type: str = string()
    principal_name: str = string()


@dataclass(slots=True)
class DescribedDelegationToken:
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string(versions="3+")
    token_requester_principal_name: str = string(versions="3+")
    issue_timestamp: int = int64()
    expiry_timestamp: int = int64()
    max_timestamp: int = int64()
    token_id: str = string()
    hmac: bytes = octets()
    renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer)


@dataclass(slots=True)
class Response:
    error_code: int = int16()
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken)
    throttle_time_ms: int = int32()
