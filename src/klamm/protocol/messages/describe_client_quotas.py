"""DescribeClientQuotas (key 48), versions 0-1. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, boolean, float64, int8, int16, int32, string


@dataclass(slots=True)
class ComponentData:
    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(default=None, nullable="0+")


@dataclass(slots=True)
class Request:
    components: list[ComponentData] = array(ComponentData)
    strict: bool = boolean()


@dataclass(slots=True)
class EntityData:
    entity_type: str = string()
    entity_name: str | None = string(default=None, nullable="0+")


@dataclass(slots=True)
class ValueData:
    key: str = string()
    value: float = float64()


@dataclass(slots=True)
class EntryData:
    entity: list[EntityData] = array(EntityData)
    values: list[ValueData] = array(ValueData)


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    entries: list[EntryData] | None = array(EntryData, nullable="0+")
