"""AddOffsetsToTxn (key 25), versions 0-4. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import int16, int32, int64, string


@dataclass(slots=True)
class Request:
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32()
    error_code: int = int16()
