"""DeleteGroups (key 42), versions 0-2. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, int16, int32, string


@dataclass(slots=True)
class Request:
    groups_names: list[str] = array("string")


@dataclass(slots=True)
class DeletableGroupResult:
    group_id: str = string()
    error_code: int = int16()


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
