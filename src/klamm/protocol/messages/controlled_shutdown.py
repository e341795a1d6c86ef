"""ControlledShutdown (key 7), versions 0-3: a broker asks to be relieved before it stops.

The answer names the partitions it still leads; the broker asks again until there are none.
"""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, int16, int32, int64, string


@dataclass(slots=True)
class Request:
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1, versions="2+")


@dataclass(slots=True)
class RemainingPartition:
    topic_name: str = string()
    partition_index: int = int32()


@dataclass(slots=True)
class Response:
    error_code: int = int16()
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition)
