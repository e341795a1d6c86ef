"""DescribeUserScramCredentials (key 50), versions 0. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, int8, int16, int32, string


@dataclass(slots=True)
class UserName:
    name: str = string()


@dataclass(slots=True)
class Request:
    users: list[UserName] | None = array(UserName, nullable="0+")


@dataclass(slots=True)
class CredentialInfo:
    mechanism: int = int8()
    iterations: int = int32()


@dataclass(slots=True)
class DescribeUserScramCredentialsResult:
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    credential_infos: list[CredentialInfo] = array(CredentialInfo)


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult)
