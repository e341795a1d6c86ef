"""Heartbeat (key 12), versions 0-4. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import int16, int32, string


@dataclass(slots=True)
class Request:
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(default=None, nullable="3+", versions="3+")


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32(versions="1+")
    error_code: int = int16()
