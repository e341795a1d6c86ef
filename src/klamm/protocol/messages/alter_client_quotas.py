"""AlterClientQuotas (key 49), versions 0-1. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, boolean, float64, int16, int32, string


@dataclass(slots=True)
class EntityData:
    entity_type: str = string()
    entity_name: str | None = string(default=None, nullable="0+")


@dataclass(slots=True)
class OpData:
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


@dataclass(slots=True)
class EntryData:
    entity: list[EntityData] = array(EntityData)
    ops: list[OpData] = array(OpData)


@dataclass(slots=True)
class Request:
    entries: list[EntryData] = array(EntryData)
    validate_only: bool = boolean()


@dataclass(slots=True)
class EntityDataResponse:
    entity_type: str = string()
    entity_name: str | None = string(default=None, nullable="0+")


@dataclass(slots=True)
class EntryDataResponse:
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    entity: list[EntityDataResponse] = array(EntityDataResponse)


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32()
    entries: list[EntryDataResponse] = array(EntryDataResponse)
