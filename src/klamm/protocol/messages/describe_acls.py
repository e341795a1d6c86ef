"""DescribeAcls (key 29), versions 0-3. By hand."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, int8, int16, int32, string


@dataclass(slots=True)
class Request:
    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(default=None, nullable="0+")
    pattern_type_filter: int = int8(default=3, versions="1+")
    principal_filter: str | None = string(default=None, nullable="0+")
    host_filter: str | None = string(default=None, nullable="0+")
    operation: int = int8()
    permission_type: int = int8()


@dataclass(slots=True)
class AclDescription:
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@dataclass(slots=True)
class DescribeAclsResource:
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(default=3, versions="1+")
    acls: list[AclDescription] = array(AclDescription)


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    resources: list[DescribeAclsResource] = array(DescribeAclsResource)
