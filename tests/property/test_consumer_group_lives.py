"""Everything that can happen to a consumer group of the new protocol, in any order.

At no moment do two members have the same partition. What was written is what is remembered. Once
nothing happens any more, every partition is read, and nobody has two more than another.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from klamm.groups.consumer.events import (
    Answer,
    ConsumerLimits,
    Heartbeat,
    fence,
    heartbeat,
    request_fault,
)
from klamm.groups.consumer.state import (
    LEAVES,
    LEAVES_FOR_NOW,
    NOTHING,
    Change,
    ConsumerGroup,
    ConsumerGroupState,
    Partitions,
    TopicIdPartition,
    TopicShape,
)
from klamm.model.errors import ErrorCode, Refused

LIMITS = ConsumerLimits()
TOPICS = frozenset({"t", "u"})
people = st.sampled_from(["ann", "bob", "cat", "dan"])


@dataclass
class Reader:
    """A client: what it believes and what it has in hand."""

    id: str
    instance: str | None
    epoch: int = 0
    owned: Partitions = NOTHING
    told: Partitions | None = None  # the last assignment it heard of
    full: bool = True  # say everything next time


@dataclass
class Readers:
    """The clients by name; each incarnation has an id of its own."""

    alive: dict[str, Reader] = field(default_factory=dict)
    born: int = 0

    def start(self, name: str, instance: str | None) -> Reader:
        self.born += 1
        self.alive[name] = Reader(f"{name}-{self.born}", instance)
        return self.alive[name]


class Lives(RuleBasedStateMachine):
    """One group's life."""

    def __init__(self) -> None:
        super().__init__()
        self.group = ConsumerGroup("g")
        self.written: list[Change] = []
        self.readers = Readers()
        self.cluster = {"t": TopicShape(uuid.UUID(int=1), 3), "u": TopicShape(uuid.UUID(int=2), 2)}
        self.ids = 2

    # --- what a client does

    def send(self, reader: Reader, *, hears: bool = True, says: bool = True) -> None:
        full = reader.full or reader.epoch == 0
        beat = Heartbeat(
            member_id=reader.id,
            epoch=reader.epoch,
            instance_id=reader.instance,
            rebalance_timeout_ms=1_000 if full else -1,
            topics=TOPICS if full else None,
            owned=reader.owned if full or says else None,
        )
        assert request_fault(beat, LIMITS) is None
        decision = heartbeat(self.group, beat, self.cluster, LIMITS)
        self.commit(decision.group, decision.changes)
        if not hears:
            reader.full = True
            return
        match decision.answer:
            case Answer(epoch=epoch, assignment=assignment):
                reader.full = False
                reader.epoch = epoch
                if assignment is not None:
                    reader.told = assignment
                    # It may take what is new at once, and needs time to let go of the rest.
                    reader.owned |= assignment
            case Refused(code=code):
                assert code in (
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    ErrorCode.UNKNOWN_MEMBER_ID,
                    ErrorCode.UNRELEASED_INSTANCE_ID,
                ), code
                reader.epoch, reader.owned, reader.told, reader.full = 0, NOTHING, None, True

    def commit(self, group: ConsumerGroup, changes: tuple[Change, ...]) -> None:
        self.group = group
        self.written += changes

    @rule(name=people, static=st.booleans())
    def comes(self, name: str, static: bool) -> None:
        if name not in self.readers.alive:
            self.send(self.readers.start(name, f"i-{name}" if static else None))

    @rule(name=people, hears=st.booleans(), says=st.booleans())
    def reports(self, name: str, hears: bool, says: bool) -> None:
        if name in self.readers.alive:
            self.send(self.readers.alive[name], hears=hears, says=says)

    @rule(name=people)
    def lets_go(self, name: str) -> None:
        reader = self.readers.alive.get(name)
        if reader is not None and reader.told is not None:
            reader.owned &= reader.told

    @rule(name=people, for_now=st.booleans())
    def leaves(self, name: str, for_now: bool) -> None:
        reader = self.readers.alive.pop(name, None)
        if reader is None:
            return
        epoch = LEAVES_FOR_NOW if for_now and reader.instance else LEAVES
        beat = Heartbeat(member_id=reader.id, epoch=epoch, instance_id=reader.instance)
        decision = heartbeat(self.group, beat, self.cluster, LIMITS)
        self.commit(decision.group, decision.changes)

    @rule(name=people)
    def is_not_heard_of(self, name: str) -> None:
        reader = self.readers.alive.get(name)
        if reader is not None:
            # A client gives its partitions up when its session has ended by its own clock.
            reader.owned, reader.told = NOTHING, None
            decision = fence(self.group, [reader.id])
            self.commit(decision.group, decision.changes)

    # --- what happens around it

    @rule(topic=st.sampled_from(sorted(TOPICS)), more=st.integers(1, 3))
    def topic_grows(self, topic: str, more: int) -> None:
        shape = self.cluster.get(topic)
        if shape is not None and shape.partitions < 8:
            self.cluster[topic] = TopicShape(shape.id, shape.partitions + more)

    @rule(topic=st.sampled_from(sorted(TOPICS)), size=st.integers(0, 4))
    def topic_is_made_anew(self, topic: str, size: int) -> None:
        self.cluster.pop(topic, None)
        if size:
            self.ids += 1
            self.cluster[topic] = TopicShape(uuid.UUID(int=self.ids), size)

    @rule()
    def coordinator_changes(self) -> None:
        restored = ConsumerGroup("g")
        for change in self.written:
            restored.apply(change)
        assert restored == self.group
        self.group = restored

    @precondition(lambda self: self.readers.alive)
    @rule()
    def falls_quiet(self) -> None:
        # Who is gone without a word is given up in the end.
        here = {reader.id for reader in self.readers.alive.values()}
        gone = fence(self.group, [who for who in self.group.members if who not in here])
        self.commit(gone.group, gone.changes)
        for _ in range(8):
            for name, reader in self.readers.alive.items():
                self.send(reader)
                self.lets_go(name)
        assert self.group.state is ConsumerGroupState.STABLE
        wanted = {TopicIdPartition(s.id, n) for s in self.cluster.values() for n in range(s[1])}
        shares = [reader.owned for reader in self.readers.alive.values()]
        assert NOTHING.union(*shares) == wanted
        assert max(map(len, shares)) - min(map(len, shares)) <= 1

    # --- what always holds

    @invariant()
    def no_partition_is_read_twice(self) -> None:
        read = [p for reader in self.readers.alive.values() for p in reader.owned]
        assert len(read) == len(set(read))

    @invariant()
    def members_have_no_more_than_the_group_knows(self) -> None:
        for reader in self.readers.alive.values():
            if reader.id in self.group.members:
                standing = self.group.standing(reader.id)
                assert reader.owned <= standing.assigned | standing.revoking

    @invariant()
    def everything_known_belongs_to_a_member(self) -> None:
        assert self.group.standings.keys() == self.group.members.keys()
        assert self.group.targets.keys() <= self.group.members.keys()
        assert self.group.assignment_epoch <= self.group.epoch


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
