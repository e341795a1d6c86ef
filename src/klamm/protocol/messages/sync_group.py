"""SyncGroup (key 14), versions 0-5. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, int16, int32, octets, string


@dataclass(slots=True)
class SyncGroupRequestAssignment:
    member_id: str = string()
    assignment: bytes = octets()


@dataclass(slots=True)
class Request:
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(default=None, nullable="3+", versions="3+")
    protocol_type: str | None = string(default=None, nullable="5+", versions="5+")
    protocol_name: str | None = string(default=None, nullable="5+", versions="5+")
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32(versions="1+")
    error_code: int = int16()
    protocol_type: str | None = string(default=None, nullable="5+", versions="5+")
    protocol_name: str | None = string(default=None, nullable="5+", versions="5+")
    assignment: bytes = octets()
