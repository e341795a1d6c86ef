"""CreateAcls (key 30), versions 0-3. By hand."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, int8, int16, int32, string


@dataclass(slots=True)
class AclCreation:
    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8(default=3, versions="1+")
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@dataclass(slots=True)
class Request:
    creations: list[AclCreation] = array(AclCreation)


@dataclass(slots=True)
class AclCreationResult:
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32()
    results: list[AclCreationResult] = array(AclCreationResult)
