"""The answer to ElectLeaders, while other things happen to the same partitions."""

from __future__ import annotations

import asyncio
import uuid
from types import SimpleNamespace
from typing import Any

from klamm.broker.access.access import Access
from klamm.broker.access.audit import Audit
from klamm.broker.api import elect_leaders
from klamm.broker.metadata_cache import MetadataCache
from klamm.controller.events import ElectionsAnswer, ElectionsAsked, PartitionFault
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.protocol.messages.elect_leaders import Request, TopicPartitions
from klamm.protocol.messages.update_metadata import (
    Request as Update,
)
from klamm.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataTopicState,
)
from unit.broker.access.peers import context

ID = uuid.UUID(int=7)
ELECTED = {TopicPartition("t", 0): 5, TopicPartition("t", 1): 5}


class _Controller:
    """Holds the elections at once; brokers hear of them from the test."""

    async def submit(self, event: ElectionsAsked, by: str) -> ElectionsAnswer:
        assert by == "User:alice (client app at 10.0.0.1)"
        return ElectionsAnswer(dict.fromkeys(ELECTED, PartitionFault()), ELECTED)


def tell(metadata: MetadataCache, *leaders: tuple[int, int]) -> None:
    """Each partition's leader and leader epoch."""
    states = [
        UpdateMetadataPartitionState(
            partition_index=at, leader=leader, leader_epoch=epoch, isr=[1, 2], replicas=[1, 2]
        )
        for at, (leader, epoch) in enumerate(leaders)
    ]
    metadata.apply(Update(topic_states=[UpdateMetadataTopicState("t", ID, states)]))


async def elect(metadata: MetadataCache, timeout_ms: int) -> list[int]:
    access = Access(Audit(lambda: 0))
    broker: Any = SimpleNamespace(controller=_Controller(), metadata=metadata, access=access)
    request = Request(0, [TopicPartitions("t", [0, 1])], timeout_ms)
    response = await elect_leaders.handle(broker, context(), request)
    return [p.error_code for t in response.replica_election_results for p in t.partition_result]


async def test_leaders_need_not_lead_at_the_same_moment() -> None:
    metadata = MetadataCache()
    tell(metadata, (2, 4), (2, 4))
    asked = asyncio.create_task(elect(metadata, 60_000))
    await asyncio.sleep(0)
    tell(metadata, (1, 5), (2, 4))
    tell(metadata, (2, 6), (2, 4))  # the first has lost its leader again
    tell(metadata, (2, 6), (1, 5))
    async with asyncio.timeout(1):
        assert await asked == [ErrorCode.NONE, ErrorCode.NONE]


async def test_a_leader_that_was_overtaken_unseen_counts_as_elected() -> None:
    metadata = MetadataCache()
    tell(metadata, (2, 4), (1, 5))
    asked = asyncio.create_task(elect(metadata, 60_000))
    await asyncio.sleep(0)
    tell(metadata, (2, 7), (1, 5))
    async with asyncio.timeout(1):
        assert await asked == [ErrorCode.NONE, ErrorCode.NONE]


async def test_an_election_that_nobody_told_of_is_late() -> None:
    metadata = MetadataCache()
    tell(metadata, (2, 4), (1, 5))
    assert await elect(metadata, 1) == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]
