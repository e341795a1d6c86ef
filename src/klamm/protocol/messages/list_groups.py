"""ListGroups (key 16), versions 0-5. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, int16, int32, string


@dataclass(slots=True)
class Request:
    states_filter: list[str] = array("string", versions="4+")
    types_filter: list[str] = array("string", versions="5+")


@dataclass(slots=True)
class ListedGroup:
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string(versions="4+")
    group_type: str = string(versions="5+")


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32(versions="1+")
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)
