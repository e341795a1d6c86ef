"""DescribeLogDirs (key 35), versions 0-4. By hand."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, boolean, int16, int32, int64, string


@dataclass(slots=True)
class DescribableLogDirTopic:
    topic: str = string()
    partitions: list[int] = array("int32")


@dataclass(slots=True)
class Request:
    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable="0+")


@dataclass(slots=True)
class DescribeLogDirsPartition:
    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()


@dataclass(slots=True)
class DescribeLogDirsTopic:
    name: str = string()
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


@dataclass(slots=True)
class DescribeLogDirsResult:
    error_code: int = int16()
    log_dir: str = string()
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64(default=-1, versions="4+")
    usable_bytes: int = int64(default=-1, versions="4+")


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32()
    error_code: int = int16(versions="3+")
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult)
