"""InitProducerId (key 22), versions 0-5. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import int16, int32, int64, string


@dataclass(slots=True)
class Request:
    transactional_id: str | None = string(default=None, nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64(default=-1, versions="3+")
    producer_epoch: int = int16(default=-1, versions="3+")


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
