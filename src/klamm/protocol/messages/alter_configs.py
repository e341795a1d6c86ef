"""AlterConfigs (key 33), versions 0-2. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, boolean, int8, int16, int32, string


@dataclass(slots=True)
class AlterableConfig:
    name: str = string()
    value: str | None = string(default=None, nullable="0+")


@dataclass(slots=True)
class AlterConfigsResource:
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@dataclass(slots=True)
class Request:
    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@dataclass(slots=True)
class AlterConfigsResourceResponse:
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
