"""Changes of in-sync sets on their way to the controller (KIP-497).

All changes that are open go into one AlterPartition, one request at a time. A partition has at most
one open change, and while it is open its high watermark respects both sets. So an answer may take
as long as it likes: what matters is that every proposal gets one, or the partition gets a new role.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Sequence
from typing import Final

from klamm.broker.controller_channel import ControllerUnreachable
from klamm.broker.ground import Ground
from klamm.broker.replicas.partition import Partition
from klamm.model.names import ZERO_ID, BrokerId, TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.alter_partition import (
    BrokerState,
    PartitionData,
    PartitionDataResponse,
    Request,
    Response,
    TopicData,
)
from klamm.replication.leader import ProposalVerdict, verdict

log = logging.getLogger(__name__)

_VERSION: Final = 3
_VERSION_BY_NAME: Final = 1
_RETRY_S: Final = 0.05


class Proposals:
    """The open proposals of one broker."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._open: dict[TopicPartition, Partition] = {}
        self._added = asyncio.Event()

    def add(self, partition: Partition) -> None:
        """Take a partition's proposed set to the controller."""
        self._open[partition.topic_partition] = partition
        self._added.set()

    async def run(self) -> None:
        while True:
            await self._added.wait()
            self._added.clear()
            # What was proposed in this turn of the loop goes into one request.
            await asyncio.sleep(0)
            batch = [p for p in self._open.values() if p.isr.proposed is not None and p.is_leader]
            self._open.clear()
            if batch and not await self._send(batch):
                for partition in batch:
                    self.add(partition)
                await asyncio.sleep(_RETRY_S)

    async def _send(self, batch: Sequence[Partition]) -> bool:
        """Whether the controller dealt with them."""
        epochs = {partition.topic_partition: partition.leader_epoch for partition in batch}
        by_name = not all(partition.has_id for partition in batch)
        version = _VERSION_BY_NAME if by_name else _VERSION
        request, asked = _request(batch, self._ground.id, self._ground.epoch, by_name=by_name)
        try:
            response = await self._ground.channel.request(ApiKey.ALTER_PARTITION, version, request)
        except ControllerUnreachable as fault:
            log.info("proposals wait for a controller", extra={"why": str(fault)})
            return False
        assert isinstance(response, Response)
        if response.error_code:
            log.info("proposals were refused", extra={"code": response.error_code})
            return False
        for topic in response.topics:
            for answer in topic.partitions:
                key = topic.topic_name if by_name else topic.topic_id
                partition = asked.pop((key, answer.partition_index), None)
                if partition is not None and partition.leader_epoch == epochs.get(
                    partition.topic_partition
                ):
                    self._take_answer(partition, answer)
        for partition in asked.values():
            self.add(partition)
        return True

    def _take_answer(self, partition: Partition, answer: PartitionDataResponse) -> None:
        if not partition.is_leader or partition.isr.proposed is None:
            return
        decision = verdict(answer.error_code)
        log.info(
            "in-sync set",
            extra={
                "partition": str(partition.topic_partition),
                "proposed": partition.isr.proposed,
                "decision": str(decision),
                "code": answer.error_code,
            },
        )
        match decision:
            case ProposalVerdict.COMMIT:
                if (
                    answer.leader_epoch == partition.leader_epoch
                    and answer.partition_epoch >= partition.partition_epoch
                ):
                    members = tuple(map(BrokerId, answer.isr))
                    before = len(partition.isr.committed)
                    partition.commit_isr(members, answer.partition_epoch)
                    self._ground.metrics.isr_changed(before, len(members))
            case ProposalVerdict.ROLL_BACK:
                partition.roll_back_isr()
            case ProposalVerdict.PROPOSE_AGAIN:
                self.add(partition)
            case ProposalVerdict.WAIT:
                pass


_Asked = dict[tuple[uuid.UUID | str, int], Partition]


def _request(
    batch: Sequence[Partition], broker: BrokerId, broker_epoch: int, *, by_name: bool
) -> tuple[Request, _Asked]:
    topics: dict[uuid.UUID | str, TopicData] = {}
    asked: _Asked = {}
    for partition in batch:
        local, proposed = partition.log, partition.isr.proposed
        if local is None or proposed is None or (local.topic_id is None and not by_name):
            continue
        name, index = partition.topic_partition
        topic_id = local.topic_id or ZERO_ID
        key = name if by_name else topic_id
        topic = topics.setdefault(key, TopicData(name, topic_id))
        asked[key, index] = partition
        topic.partitions.append(
            PartitionData(
                partition_index=index,
                leader_epoch=partition.leader_epoch,
                new_isr_with_epochs=[BrokerState(member) for member in proposed],
                new_isr=list(proposed),
                leader_recovery_state=int(partition.recovery),
                partition_epoch=partition.partition_epoch,
            )
        )
    return Request(broker, broker_epoch, list(topics.values())), asked
