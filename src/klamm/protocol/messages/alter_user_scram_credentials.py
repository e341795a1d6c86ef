"""AlterUserScramCredentials (key 51), versions 0. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, int8, int16, int32, octets, string


@dataclass(slots=True)
class ScramCredentialDeletion:
    name: str = string()
    mechanism: int = int8()


@dataclass(slots=True)
class ScramCredentialUpsertion:
    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: bytes = octets()
    salted_password: bytes = octets()


@dataclass(slots=True)
class Request:
    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


@dataclass(slots=True)
class AlterUserScramCredentialsResult:
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32()
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)
