"""FindCoordinator (key 10), versions 0-6. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, int8, int16, int32, string


@dataclass(slots=True)
class Request:
    key: str = string(versions="0-3")
    key_type: int = int8(versions="1+")
    coordinator_keys: list[str] = array("string", versions="4+")


@dataclass(slots=True)
class Coordinator:
    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="4+")


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32(versions="1+")
    coordinators: list[Coordinator] = array(Coordinator, versions="4+")
    error_code: int = int16(versions="0-3")
    error_message: str | None = string(default=None, nullable="1-3", versions="1-3")
    node_id: int = int32(versions="0-3")
    host: str = string(versions="0-3")
    port: int = int32(versions="0-3")
