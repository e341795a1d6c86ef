"""AlterPartition over the wire, in the versions by name and in those by id."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from klamm.broker.api import alter_partition as api
from klamm.controller.events import IsrAnswer, IsrChangesAsked
from klamm.model.errors import ErrorCode
from klamm.model.leadership import Leadership, Recovery
from klamm.model.names import BrokerId
from klamm.protocol import codec
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.alter_partition import (
    BrokerState,
    PartitionData,
    Request,
    Response,
    TopicData,
)

ID = uuid.UUID(int=7)
ONE, TWO = BrokerId(1), BrokerId(2)
AFTER = Leadership(
    leader=ONE,
    leader_epoch=4,
    isr=(ONE, TWO),
    controller_epoch=1,
    partition_epoch=9,
    recovery=Recovery.RECOVERED,
)


class _Controller:
    """Takes the change of partition 0, and refuses all others for a member that is not live."""

    def __init__(self) -> None:
        self.asked: list[IsrChangesAsked] = []

    async def submit(self, event: IsrChangesAsked) -> IsrAnswer:
        self.asked.append(event)
        return IsrAnswer(
            ErrorCode.NONE,
            tuple(
                (each, ErrorCode.INELIGIBLE_REPLICA, None)
                if each.partition
                else (each, ErrorCode.NONE, AFTER)
                for each in event.changes
            ),
        )


def partition(at: int) -> PartitionData:
    members = [BrokerState(1, 11), BrokerState(2, 12)]
    return PartitionData(at, 4, members, [1, 2], leader_recovery_state=0, partition_epoch=8)


async def ask(version: int) -> tuple[IsrChangesAsked, Response]:
    """What the controller and the leader read, each after a way over the wire."""
    controller = _Controller()
    parts: Any = SimpleNamespace(controller=controller)
    context: Any = SimpleNamespace(version=version)
    sent = Request(1, 11, [TopicData("t", ID, [partition(0), partition(1)])])
    key = ApiKey.ALTER_PARTITION
    frame = codec.encode_request(key, version, sent)
    read = codec.decode_request(key, version, memoryview(frame))
    answer = await api.handle(parts, context, read)
    (event,) = controller.asked
    told = codec.decode_response(
        key, version, memoryview(codec.encode_response(key, version, answer))
    )
    return event, told


@pytest.mark.parametrize(
    ("version", "topic", "epochs", "refusal"),
    [
        (0, "t", {}, ErrorCode.OPERATION_NOT_ATTEMPTED),
        (1, "t", {}, ErrorCode.OPERATION_NOT_ATTEMPTED),
        (2, ID, {}, ErrorCode.INELIGIBLE_REPLICA),
        (3, ID, {ONE: 11, TWO: 12}, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
async def test_each_version_names_topics_and_refuses_members_in_its_way(
    version: int, topic: str | uuid.UUID, epochs: dict[BrokerId, int], refusal: ErrorCode
) -> None:
    event, answer = await ask(version)
    assert [(c.topic, c.isr, c.isr_epochs) for c in event.changes] == [
        (topic, (ONE, TWO), epochs)
    ] * 2
    assert {(c.leader_epoch, c.partition_epoch, c.recovery) for c in event.changes} == {
        (4, 8, Recovery.RECOVERED)
    }
    (told,) = answer.topics
    assert (told.topic_id if version >= 2 else told.topic_name) == topic
    taken, refused = told.partitions
    assert (taken.error_code, taken.leader_id, taken.isr) == (0, 1, [1, 2])
    assert (taken.leader_epoch, taken.partition_epoch) == (4, 9)
    assert (refused.partition_index, refused.error_code) == (1, refusal)
