"""AddPartitionsToTxn (key 24), versions 0-5. Generated."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.protocol.schema import array, boolean, int16, int32, int64, string


@dataclass(slots=True)
class AddPartitionsToTxnTopic:
    name: str = string()
    partitions: list[int] = array("int32")


@dataclass(slots=True)
class AddPartitionsToTxnTransaction:
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    verify_only: bool = boolean()
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic)


@dataclass(slots=True)
class Request:
    transactions: list[AddPartitionsToTxnTransaction] = array(
        AddPartitionsToTxnTransaction, versions="4+"
    )
    v3_and_below_transactional_id: str = string(versions="0-3")
    v3_and_below_producer_id: int = int64(versions="0-3")
    v3_and_below_producer_epoch: int = int16(versions="0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(
        AddPartitionsToTxnTopic, versions="0-3"
    )


@dataclass(slots=True)
class AddPartitionsToTxnPartitionResult:
    partition_index: int = int32()
    partition_error_code: int = int16()


@dataclass(slots=True)
class AddPartitionsToTxnTopicResult:
    name: str = string()
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(
        AddPartitionsToTxnPartitionResult
    )


@dataclass(slots=True)
class AddPartitionsToTxnResult:
    transactional_id: str = string()
    topic_results: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult)


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32()
    error_code: int = int16(versions="4+")
    results_by_transaction: list[AddPartitionsToTxnResult] = array(
        AddPartitionsToTxnResult, versions="4+"
    )
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, versions="0-3"
    )
