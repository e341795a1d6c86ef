"""Somebody who changes topics at random, and what a standby must know of it."""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, field

from klamm.broker.term.observing import Observer
from klamm.broker.term.standby import Standby
from klamm.model.assignment import Assignment
from klamm.model.leadership import Leadership
from klamm.model.names import BrokerId, TopicPartition
from klamm.store import layout
from klamm.store.port import Create, Delete, Op, Session, SetData

REPLICAS = (BrokerId(0), BrokerId(1))


def led(epoch: int) -> bytes:
    state = Leadership(leader=REPLICAS[0], leader_epoch=epoch, isr=REPLICAS, controller_epoch=1)
    return layout.encode_state(state)


def node(topic_id: uuid.UUID, count: int) -> bytes:
    return layout.encode_topic(
        layout.TopicNode(topic_id, {p: Assignment(REPLICAS) for p in range(count)})
    )


@dataclass
class Writer:
    """Somebody who creates, changes and removes topics at random, as far as it makes sense."""

    session: Session
    dice: random.Random
    topics: dict[str, tuple[uuid.UUID, int]] = field(default_factory=dict)
    led: set[TopicPartition] = field(default_factory=set)

    async def do_something(self) -> None:
        name = self.dice.choice("abc")
        if name not in self.topics:
            await self.create(name)
            return
        topic_id, count = self.topics[name]
        partition = TopicPartition(name, self.dice.randrange(count))
        match self.dice.randrange(6):
            case 0:
                await self.delete(name)
            case 1:
                self.topics[name] = topic_id, count + 1
                await self._do(SetData(layout.topic_path(name), node(topic_id, count + 1)))
            case 2:
                text = self.dice.choice(["true", "false"])
                config = layout.encode_config({"unclean.leader.election.enable": text})
                await self._do(SetData(layout.topic_config_path(name), config))
            case _:
                await self.lead(partition)

    async def create(self, name: str, count: int = 2) -> None:
        self.topics[name] = uuid.UUID(int=self.dice.getrandbits(120)), count
        await self._do(
            Create(layout.topic_config_path(name), layout.encode_config({})),
            Create(layout.topic_path(name), node(*self.topics[name])),
            Create(layout.partitions_path(name)),
        )

    async def lead(self, partition: TopicPartition) -> None:
        state = led(self.dice.randrange(100))
        if partition in self.led:
            await self._do(SetData(layout.state_path(partition), state))
            return
        self.led.add(partition)
        await self._do(
            Create(layout.partition_path(partition)), Create(layout.state_path(partition), state)
        )

    async def delete(self, name: str) -> None:
        self.topics.pop(name)
        own = [p for p in self.led if p.topic == name]
        self.led -= set(own)
        paths = [path for p in own for path in (layout.state_path(p), layout.partition_path(p))]
        last = (layout.partitions_path, layout.topic_path, layout.topic_config_path)
        await self._do(*map(Delete, [*paths, *(path(name) for path in last)]))

    async def _do(self, *ops: Op) -> None:
        results = await self.session.multi(ops)
        assert all(result.ok for result in results), results


async def be_elected(session: Session) -> None:
    """What comes before a term in any case: a write that is answered."""
    await session.multi([Create(layout.CONTROLLER), Delete(layout.CONTROLLER)])


async def check(standby: Standby, session: Session) -> bool:
    """Whether everything was at hand; if so, it is what a new controller would read."""
    await be_elected(session)
    facts = await standby.catch_up()
    if facts is None:
        return False
    observer = Observer(session, draw_id=uuid.uuid4, watch=lambda *_: None)
    read = await observer.everything()
    assert facts.topics == read.topics
    assert facts.states == read.states
    return True
