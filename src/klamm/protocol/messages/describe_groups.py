"""DescribeGroups (key 15), versions 0-5. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, boolean, int16, int32, octets, string


@dataclass(slots=True)
class Request:
    groups: list[str] = array("string")
    include_authorized_operations: bool = boolean(versions="3+")


@dataclass(slots=True)
class DescribedGroupMember:
    member_id: str = string()
    group_instance_id: str | None = string(default=None, nullable="4+", versions="4+")
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = octets()
    member_assignment: bytes = octets()


@dataclass(slots=True)
class DescribedGroup:
    error_code: int = int16()
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32(default=-2147483648, versions="3+")


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32(versions="1+")
    groups: list[DescribedGroup] = array(DescribedGroup)
