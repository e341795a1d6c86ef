"""ListTransactions (key 66), versions 0-1. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, int16, int32, int64, string


@dataclass(slots=True)
class Request:
    state_filters: list[str] = array("string")
    producer_id_filters: list[int] = array("int64")
    duration_filter: int = int64(default=-1, versions="1+")


@dataclass(slots=True)
class TransactionState:
    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array("string")
    transaction_states: list[TransactionState] = array(TransactionState)
