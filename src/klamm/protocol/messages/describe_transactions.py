"""DescribeTransactions (key 65), versions 0. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, int16, int32, int64, string


@dataclass(slots=True)
class Request:
    transactional_ids: list[str] = array("string")


@dataclass(slots=True)
class TopicData:
    topic: str = string()
    partitions: list[int] = array("int32")


@dataclass(slots=True)
class TransactionState:
    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: list[TopicData] = array(TopicData)


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32()
    transaction_states: list[TransactionState] = array(TransactionState)
