"""LeaveGroup (key 13), versions 0-5. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, int16, int32, string


@dataclass(slots=True)
class MemberIdentity:
    member_id: str = string()
    group_instance_id: str | None = string(default=None, nullable="3+")
    reason: str | None = string(default=None, nullable="5+", versions="5+")


@dataclass(slots=True)
class Request:
    group_id: str = string()
    members: list[MemberIdentity] = array(MemberIdentity, versions="3+")
    member_id: str = string(versions="0-2")


@dataclass(slots=True)
class MemberResponse:
    member_id: str = string()
    group_instance_id: str | None = string(default=None, nullable="3+")
    error_code: int = int16()


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32(versions="1+")
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, versions="3+")
