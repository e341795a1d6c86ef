"""AllocateProducerIds (key 67), versions 0. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import int16, int32, int64


@dataclass(slots=True)
class Request:
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id_start: int = int64()
    producer_id_len: int = int32()
