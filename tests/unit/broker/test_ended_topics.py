"""A topic that ended with its controller: the next one never knew it, and brokers still do."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.protocol.messages.update_metadata import (
    Request,
    UpdateMetadataPartitionState,
    UpdateMetadataTopicState,
)
from unit.broker.brokers import world


def told(controller_epoch: int, *topics: str) -> Request:
    state = UpdateMetadataPartitionState(partition_index=0, leader=0, isr=[0], replicas=[0])
    return Request(
        controller_epoch=controller_epoch,
        topic_states=[UpdateMetadataTopicState(t, uuid.uuid4(), [state]) for t in topics],
    )


async def test_a_broker_forgets_it_when_a_new_controller_speaks(tmp_path: Path) -> None:
    async with world(tmp_path, count=1) as w:
        await w.create("t", (0,))
        broker = w.brokers[0]
        removed: list[TopicPartition] = []
        broker.parts.replicas.on_metadata.append(removed.extend)
        epoch = broker.parts.replicas.controller_epoch
        # Told by a controller that then deletes the topic and dies before it says so here.
        assert await broker.parts.replicas.learn(told(epoch, "ended")) is ErrorCode.NONE
        assert set(broker.parts.metadata.snapshot.topics) == {"t", "ended"}
        await w.elect(epoch + 1)
        assert await broker.parts.replicas.learn(told(epoch + 1)) is ErrorCode.NONE
        assert set(broker.parts.metadata.snapshot.topics) == {"t"}
        assert removed == [TopicPartition("ended", 0)]
        # Asked once a term: what this controller says itself is believed.
        await broker.parts.replicas.learn(told(epoch + 1, "new"))
        assert set(broker.parts.metadata.snapshot.topics) == {"t", "new"}


async def test_what_a_controller_says_is_shown_before_the_store_is_asked(tmp_path: Path) -> None:
    async with world(tmp_path, count=1) as w:
        await w.create("t", (0,))
        broker = w.brokers[0]
        # Its election is known already, only the topics have not been compared since.
        broker.parts.replicas.authority.epoch += 1
        asked = broker.parts.replicas.learn(told(broker.parts.replicas.controller_epoch, "new"))
        learning = asyncio.create_task(asked)
        await asyncio.sleep(0)
        assert not learning.done(), "the store has not answered yet"
        assert set(broker.parts.metadata.snapshot.topics) == {"t", "new"}
        await learning
