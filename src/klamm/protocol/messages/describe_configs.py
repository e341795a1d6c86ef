"""DescribeConfigs (key 32), versions 0-4. By hand."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, boolean, int8, int16, int32, string


@dataclass(slots=True)
class DescribeConfigsResource:
    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = array("string", nullable="0+")


@dataclass(slots=True)
class Request:
    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean(versions="1+")
    include_documentation: bool = boolean(versions="3+")


@dataclass(slots=True)
class DescribeConfigsSynonym:
    name: str = string()
    value: str | None = string(default=None, nullable="1+")
    source: int = int8()


@dataclass(slots=True)
class DescribeConfigsResourceResult:
    name: str = string()
    value: str | None = string(default=None, nullable="0+")
    read_only: bool = boolean()
    is_default: bool = boolean(versions="0")
    config_source: int = int8(default=-1, versions="1+")
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, versions="1+")
    config_type: int = int8(versions="3+")
    documentation: str | None = string(default=None, nullable="3+", versions="3+")


@dataclass(slots=True)
class DescribeConfigsResult:
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)
