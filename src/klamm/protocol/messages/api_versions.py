"""ApiVersions (key 18), versions 0-4. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, boolean, int16, int32, int64, string


@dataclass(slots=True)
class Request:
    client_software_name: str = string(versions="3+")
    client_software_version: str = string(versions="3+")


@dataclass(slots=True)
class ApiVersion:
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


@dataclass(slots=True)
class SupportedFeatureKey:
    name: str = string()
    min_version: int = int16()
    max_version: int = int16()


@dataclass(slots=True)
class FinalizedFeatureKey:
    name: str = string()
    max_version_level: int = int16()
    min_version_level: int = int16()


@dataclass(slots=True)
class Response:
    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32(versions="1+")
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, versions="3+", tag=0)
    finalized_features_epoch: int = int64(default=-1, versions="3+", tag=1)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, versions="3+", tag=2)
    zk_migration_ready: bool = boolean(versions="3+", tag=3)
