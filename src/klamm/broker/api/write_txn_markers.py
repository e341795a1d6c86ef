"""WriteTxnMarkers (key 27), versions 0-1: the end of a transaction, for each partition it wrote to.

Sent by the transaction's coordinator. The marker is
appended to each partition led here; in the offsets topic it also lets go the offsets that waited
for it.
"""

from __future__ import annotations

import asyncio
from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode
from klamm.model.names import CONSUMER_OFFSETS, TopicPartition
from klamm.protocol.batch import ControlKind, encode_control_batch
from klamm.protocol.messages import write_txn_markers as messages

BROKERS_ONLY: Final = True


async def handle(
    parts: Parts, context: RequestContext, request: messages.Request
) -> messages.Response:
    return messages.Response(
        markers=[
            messages.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    messages.WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=await asyncio.gather(
                            *(
                                _write(parts, marker, TopicPartition(topic.name, number))
                                for number in topic.partition_indexes
                            )
                        ),
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def failure(request: messages.Request, code: ErrorCode, message: str | None) -> messages.Response:
    return messages.Response(
        markers=[
            messages.WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    messages.WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            messages.WritableTxnMarkerPartitionResult(number, code)
                            for number in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


async def _write(
    parts: Parts, marker: messages.WritableTxnMarker, at: TopicPartition
) -> messages.WritableTxnMarkerPartitionResult:
    partition = parts.replicas.partitions.get(at)
    if partition is not None and partition.log is not None and partition.log.settings.importing:
        # Clients were refused, so that the transaction has nothing here; and what is imported
        # brings its own markers, at their offsets.
        return messages.WritableTxnMarkerPartitionResult(at.partition, ErrorCode.NONE)
    batch = encode_control_batch(
        ControlKind.COMMIT if marker.transaction_result else ControlKind.ABORT,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        timestamp=parts.clock.now_ms(),
    )
    written = await parts.coordinators.journal.append(at, batch)
    if written.error is ErrorCode.NONE and at.topic == CONSUMER_OFFSETS:
        parts.groups.offsets.finish_transaction(
            at, marker.producer_id, commit=marker.transaction_result
        )
    return messages.WritableTxnMarkerPartitionResult(
        partition_index=at.partition, error_code=written.error
    )
