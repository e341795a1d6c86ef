"""AlterPartition (key 56), versions 0-3: a leader asks for other in-sync sets (KIP-497).

Members that are not live are refused one by one with INELIGIBLE_REPLICA, which is
OPERATION_NOT_ATTEMPTED before version 2; from version 3 on a member counts only in the registration
the leader knows it by (KIP-903). Before version 2 topics go by their names: so speak brokers whose
inter-broker protocol knows no topic ids, and leaders of topics that have none.
"""

from __future__ import annotations

import uuid
from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.controller.events import IsrChange, IsrChangesAsked
from klamm.model.errors import ErrorCode, RequestRefused
from klamm.model.leadership import Leadership, Recovery
from klamm.model.names import BrokerId
from klamm.protocol.messages.alter_partition import (
    PartitionData,
    PartitionDataResponse,
    Request,
    Response,
    TopicDataResponse,
)

BROKERS_ONLY: Final = True
_BY_ID_SINCE: Final = 2
_RECOVERIES: Final = frozenset(Recovery)


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    for topic in request.topics:
        for partition in topic.partitions:
            if partition.leader_recovery_state not in _RECOVERIES:
                raise RequestRefused(
                    ErrorCode.INVALID_REQUEST,
                    f"there is no leader recovery state {partition.leader_recovery_state}",
                )
    by_id = context.version >= _BY_ID_SINCE
    changes = tuple(
        _change(topic.topic_id if by_id else topic.topic_name, partition)
        for topic in request.topics
        for partition in topic.partitions
    )
    answer = await parts.controller.submit(
        IsrChangesAsked(
            broker=BrokerId(request.broker_id),
            broker_epoch=request.broker_epoch,
            changes=changes,
        )
    )
    topics: dict[uuid.UUID | str, TopicDataResponse] = {
        t.topic_id if by_id else t.topic_name: TopicDataResponse(t.topic_name, t.topic_id)
        for t in request.topics
    }
    for change, code, leadership in answer.results:
        if code is ErrorCode.INELIGIBLE_REPLICA and not by_id:
            code = ErrorCode.OPERATION_NOT_ATTEMPTED
        topics[change.topic].partitions.append(_result(change, code, leadership))
    return Response(error_code=answer.code, topics=[] if answer.code else list(topics.values()))


def _change(topic: uuid.UUID | str, asked: PartitionData) -> IsrChange:
    # Up to version 2 the members come without their epochs.
    epochs = {BrokerId(m.broker_id): m.broker_epoch for m in asked.new_isr_with_epochs}
    return IsrChange(
        topic=topic,
        partition=asked.partition_index,
        leader_epoch=asked.leader_epoch,
        partition_epoch=asked.partition_epoch,
        isr=tuple(epochs) or tuple(map(BrokerId, asked.new_isr)),
        recovery=Recovery(asked.leader_recovery_state),
        isr_epochs=epochs,
    )


def _result(
    change: IsrChange, code: ErrorCode, leadership: Leadership | None
) -> PartitionDataResponse:
    if code is not ErrorCode.NONE or leadership is None:
        return PartitionDataResponse(partition_index=change.partition, error_code=code)
    return PartitionDataResponse(
        partition_index=change.partition,
        leader_id=leadership.leader,
        leader_epoch=leadership.leader_epoch,
        isr=list(leadership.isr),
        leader_recovery_state=leadership.recovery,
        partition_epoch=leadership.partition_epoch,
    )
