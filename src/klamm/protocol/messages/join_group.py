"""JoinGroup (key 11), versions 0-9. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, boolean, int16, int32, octets, string


@dataclass(slots=True)
class JoinGroupRequestProtocol:
    name: str = string()
    metadata: bytes = octets()


@dataclass(slots=True)
class Request:
    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32(default=-1, versions="1+")
    member_id: str = string()
    group_instance_id: str | None = string(default=None, nullable="5+", versions="5+")
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string(default=None, nullable="8+", versions="8+")


@dataclass(slots=True)
class JoinGroupResponseMember:
    member_id: str = string()
    group_instance_id: str | None = string(default=None, nullable="5+", versions="5+")
    metadata: bytes = octets()


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32(versions="2+")
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string(default=None, nullable="7+", versions="7+")
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean(versions="9+")
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)
