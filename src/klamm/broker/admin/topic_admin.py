"""Topics as clients ask for them: create, grow, delete, and wait until everybody can see it.

The rules are `controller/admission`'s. Here the facts are gathered, the writes made, and the answer
held back until this broker's own metadata shows the result: the controller hears of a write from
the store, decides, tells the brokers, and so comes back around to whoever waits here.

One request at a time gathers facts and writes. Otherwise two topics whose names collide could both
be admitted.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from klamm.broker.admin import topic_writes, waiting
from klamm.broker.admin.policies import Policies
from klamm.broker.admin.topic_writes import NewNode
from klamm.broker.metadata_cache import MetadataCache, MetadataSnapshot
from klamm.broker.net.turns import in_turns
from klamm.broker.quotas.quotas import Mutations
from klamm.controller.admission import (
    CreationFacts,
    DeletionFacts,
    Doomed,
    Growth,
    GrowthFacts,
    NewTopic,
    TopicCreation,
    admit_creation,
    admit_deletion,
    admit_growth,
    deletion_request_fault,
    duplicates,
    name_faults,
)
from klamm.controller.admission.placement import Racks, Start
from klamm.model.assignment import Assignment
from klamm.model.errors import Refused
from klamm.model.names import ZERO_ID, BrokerId, is_usable_id
from klamm.model.settings import BrokerSettings
from klamm.store import layout
from klamm.store.port import Session

_NEWEST_DELETION: Final = 6
# How long an answer waits for the other brokers to have heard of a change as well. Kafka does not
# wait: whoever creates a topic there and asks another broker about it may hear that there is none.
_TOLD_S: Final = 0.25
_DICE: Final = random.Random()  # making one takes longer than all else of a placement
# How long a creation waits for a deletion of the same name that is under way. Kafka refuses: who
# deletes a topic there and creates it again has to try until it works.
_FREED_MS: Final = 2_000


class ControllerMemory(Protocol):
    """The questions of administration to the controller's memory."""

    @property
    def topic_names(self) -> Mapping[uuid.UUID, str]: ...

    def is_queued_for_deletion(self, topic: str) -> bool: ...

    def is_leaving(self, topic: str) -> bool: ...

    def is_alive(self, topic: str) -> bool: ...

    async def everybody_told(self, within_s: float) -> None: ...


class TopicAdminHost(Protocol):
    """The services administration needs of its broker."""

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def session(self) -> Session: ...

    @property
    def metadata(self) -> MetadataCache: ...


@dataclass(frozen=True, slots=True)
class Created:
    """A topic that was written, or with `validate_only` would be."""

    creation: TopicCreation
    topic_id: uuid.UUID = ZERO_ID


@dataclass(frozen=True, slots=True)
class Deleted:
    """A topic that was marked for deletion."""

    topic: str
    topic_id: uuid.UUID


class TopicAdmin:
    """The administration of topics on one broker; only the controller's is asked."""

    def __init__(
        self, host: TopicAdminHost, controller: ControllerMemory, policies: Policies
    ) -> None:
        self._host = host
        self._controller = controller
        self._policies = policies
        self._turn = asyncio.Lock()

    async def create_topics(
        self,
        asks: Sequence[NewTopic],
        quota: Mutations,
        *,
        timeout_ms: int,
        validate_only: bool = False,
        is_patient: bool = False,
    ) -> list[Created | Refused]:
        """One outcome a topic, in the order asked.

        Who is patient waits a little for names whose deletion is under way.
        """
        if is_patient:
            timeout_ms -= await self._until_free(asks, min(timeout_ms, _FREED_MS))
        async with self._turn:
            planned = await self._plan_creations(asks, quota, validate_only)
            if validate_only:
                return planned
            created = [outcome for outcome in planned if isinstance(outcome, Created)]
            refusals = await self._write(created)
        outcomes = [_resolved(outcome, refusals) for outcome in planned]
        counts = {
            outcome.creation.topic: len(outcome.creation.placement)
            for outcome in outcomes
            if isinstance(outcome, Created)
        }
        late = await waiting.for_leaders(self._host.metadata, counts, timeout_ms)
        if counts and timeout_ms > 0:
            await self._controller.everybody_told(min(_TOLD_S, timeout_ms / 1000))
        return [
            late.get(outcome.creation.topic, outcome) if isinstance(outcome, Created) else outcome
            for outcome in outcomes
        ]

    async def _until_free(self, asks: Iterable[NewTopic], wait_ms: int) -> int:
        """Wait for deletions of these names to end, unless one is held up; how long that took."""
        leaving = [ask.name for ask in asks if self._controller.is_leaving(ask.name)]
        if not leaving or wait_ms <= 0:
            return 0
        clock = asyncio.get_running_loop().time
        begun = clock()
        await waiting.for_markers(self._host.session, leaving, begun + wait_ms / 1000)
        return int(1000 * (clock() - begun))

    async def _plan_creations(
        self, asks: Sequence[NewTopic], quota: Mutations, validate_only: bool
    ) -> list[Created | Refused]:
        faults = name_faults([ask.name for ask in asks])
        facts = await self._creation_facts()
        stored = set(facts.stored)
        facts = replace(facts, stored=stored, absent=self._absent(asks, facts.brokers))
        outcomes: list[Created | Refused] = []
        async for ask in in_turns(asks):
            facts = replace(facts, start=_start(facts.settings, ask.name, len(facts.brokers)))
            admitted = faults.get(ask.name) or admit_creation(ask, facts)
            if isinstance(admitted, TopicCreation) and not validate_only:
                admitted = quota.take(len(admitted.placement)) or admitted
            if isinstance(admitted, Refused):
                outcomes.append(admitted)
            else:
                # The next name of the same request may collide with this one.
                stored.add(ask.name)
                outcomes.append(Created(admitted, ZERO_ID if validate_only else _new_id()))
        return outcomes

    async def _creation_facts(self) -> CreationFacts:
        session, snapshot = self._host.session, self._host.metadata.snapshot
        return CreationFacts(
            settings=self._host.settings,
            visible=snapshot.topics,
            stored=await session.children(layout.TOPICS) or (),
            marked=await session.children(layout.DELETE_TOPICS) or (),
            brokers={broker.id: broker.rack for broker in snapshot.brokers.values()},
            start=Start.fixed(0),
            policy=self._policies.create,
        )

    def _absent(self, asks: Iterable[NewTopic], live: Racks) -> frozenset[BrokerId]:
        """The brokers that are away and hold replicas, where an assignment names one who is."""
        named = {b for ask in asks for _, replicas in ask.assignment for b in replicas}
        if named.issubset(live):
            return frozenset()
        topics = self._host.metadata.snapshot.topics.values()
        holders = {b for partitions in topics for p in partitions.values() for b in p.replicas}
        return frozenset(holders.difference(live))

    async def _write(self, created: Sequence[Created]) -> dict[uuid.UUID, Refused]:
        nodes = [NewNode(each.creation, _node(each)) for each in created]
        refusals = await topic_writes.create_topics(self._host.session, nodes)
        return {
            each.topic_id: refused
            for each, refused in zip(created, refusals, strict=True)
            if refused is not None
        }

    async def create_partitions(
        self,
        asks: Sequence[Growth],
        quota: Mutations,
        *,
        timeout_ms: int,
        validate_only: bool = False,
    ) -> list[Refused | None]:
        """One outcome a topic, in the order asked; None is success."""
        faults = duplicates([ask.topic for ask in asks], "Duplicate topic in request.")
        counts: dict[str, int] = {}
        outcomes: list[Refused | None] = []
        async with self._turn:
            for ask in asks:
                refused = faults.get(ask.topic)
                if refused is None:
                    refused = await self._grow(ask, quota, validate_only)
                outcomes.append(refused)
                if refused is None and not validate_only:
                    counts[ask.topic] = ask.count
        late = await waiting.for_leaders(self._host.metadata, counts, timeout_ms)
        if counts and timeout_ms > 0:
            await self._controller.everybody_told(min(_TOLD_S, timeout_ms / 1000))
        return [outcome or late.get(ask.topic) for ask, outcome in zip(asks, outcomes, strict=True)]

    async def _grow(self, ask: Growth, quota: Mutations, validate_only: bool) -> Refused | None:
        session = self._host.session
        facts = await self._growth_facts(ask.topic)
        taken = False

        def plan(node: layout.TopicNode | None) -> dict[int, tuple[BrokerId, ...]] | Refused:
            nonlocal taken
            stored: Mapping[int, Assignment] = {} if node is None else node.assignments
            placement = admit_growth(ask, replace(facts, partitions=stored))
            if isinstance(placement, Refused) or validate_only or taken:
                return placement
            taken = True
            return quota.take(len(placement)) or placement

        grown: object
        if validate_only:
            node = await session.get(layout.topic_path(ask.topic))
            grown = plan(None if node is None else layout.decode_topic(node.data))
        else:
            grown = await topic_writes.grow_topic(session, ask.topic, plan)
        return grown if isinstance(grown, Refused) else None

    async def grown(self, ask: Growth) -> Mapping[int, Assignment] | Refused:
        """Every partition that a topic would have; nothing is written."""
        node = await self._host.session.get(layout.topic_path(ask.topic))
        known = None if node is None else layout.decode_topic(node.data)
        facts = await self._growth_facts(ask.topic)
        placement = admit_growth(ask, replace(facts, partitions=known.assignments if known else {}))
        if isinstance(placement, Refused):
            return placement
        assert known is not None, f"{ask.topic} was planned without being read"
        return topic_writes.grown(known, placement).assignments

    async def _growth_facts(self, topic: str) -> GrowthFacts:
        session, settings = self._host.session, self._host.settings
        marker = await session.get(layout.delete_topic_path(topic))
        config = await session.get(layout.topic_config_path(topic))
        overrides = (layout.decode_config(config.data) if config is not None else None) or {}
        return GrowthFacts(
            settings=settings,
            marked=marker is not None or self._controller.is_queued_for_deletion(topic),
            partitions={},
            brokers=await self._registered(),
            compacted="compact" in settings.for_topic(overrides).list("cleanup.policy"),
        )

    async def _registered(self) -> Racks:
        session = self._host.session
        ids = [BrokerId(int(name)) for name in await session.children(layout.BROKER_IDS) or ()]
        nodes = await session.get_many([layout.broker_path(broker) for broker in ids])
        found = (
            layout.decode_broker(broker, node.data, node.stat.czxid)
            for broker, node in zip(ids, nodes, strict=True)
            if node is not None
        )
        return {broker.id: broker.rack for broker in found if broker is not None}

    def deletion_fault(self, asks: Sequence[Doomed], version: int) -> Refused | None:
        """The reason why none of these can be deleted by one request, whoever asks."""
        facts = self._deletion_facts(self._host.metadata.snapshot, version)
        return deletion_request_fault(asks, facts)

    def named(self, ask: Doomed) -> str | None:
        """The name of a topic that is asked for; None for an id that nobody knows."""
        return ask.name if ask.name is not None else self._controller.topic_names.get(ask.topic_id)

    async def delete_topics(
        self, asks: Sequence[Doomed], quota: Mutations, *, version: int, timeout_ms: int
    ) -> list[Deleted | Refused]:
        """One outcome an entry, in the order asked."""
        snapshot = self._host.metadata.snapshot
        facts = self._deletion_facts(snapshot, version)
        fault = deletion_request_fault(asks, facts)
        if fault is not None:
            return [fault] * len(asks)
        admitted = [self._admit_deletion(ask, facts, snapshot, quota) for ask in asks]
        doomed = list(dict.fromkeys(a.topic for a in admitted if isinstance(a, Deleted)))
        marked = await topic_writes.mark_for_deletion(self._host.session, doomed)
        refusals = dict(zip(doomed, marked, strict=True))
        outcomes = [(refusals[a.topic] or a) if isinstance(a, Deleted) else a for a in admitted]
        ids = {each.topic: each.topic_id for each in outcomes if isinstance(each, Deleted)}
        completed = self._host.settings.bool("klamm.delete.topic.wait.for.completion")
        late = await waiting.for_absence(
            self._host.metadata, ids, timeout_ms, self._host.session if completed else None
        )
        return [
            late.get(outcome.topic, outcome) if isinstance(outcome, Deleted) else outcome
            for outcome in outcomes
        ]

    def deletion_refusals(self, topics: Sequence[str]) -> dict[str, Refused]:
        """The topics that may not be deleted, with the reasons; nothing is written."""
        facts = self._deletion_facts(self._host.metadata.snapshot, _NEWEST_DELETION)
        asks = [Doomed(topic) for topic in topics]
        fault = deletion_request_fault(asks, facts)
        admitted = {topic: fault or admit_deletion(Doomed(topic), facts) for topic in topics}
        return {topic: no for topic, no in admitted.items() if isinstance(no, Refused)}

    def _deletion_facts(self, snapshot: MetadataSnapshot, version: int) -> DeletionFacts:
        return DeletionFacts(
            settings=self._host.settings,
            version=version,
            names=self._controller.topic_names,
            visible=snapshot.topics,
            unborn=self._controller.is_alive,
            policy=self._policies.delete,
        )

    def _admit_deletion(
        self, ask: Doomed, facts: DeletionFacts, snapshot: MetadataSnapshot, quota: Mutations
    ) -> Deleted | Refused:
        name = admit_deletion(ask, facts)
        if isinstance(name, Refused):
            return name
        refused = quota.take(len(snapshot.topics.get(name, ())))
        return refused or Deleted(name, snapshot.topic_ids.get(name, ask.topic_id))


def _resolved(
    outcome: Created | Refused, refusals: Mapping[uuid.UUID, Refused]
) -> Created | Refused:
    if isinstance(outcome, Refused):
        return outcome
    return refusals.get(outcome.topic_id, outcome)


def _node(created: Created) -> layout.TopicNode:
    assignments = {n: Assignment(replicas) for n, replicas in created.creation.placement.items()}
    return layout.TopicNode(created.topic_id, assignments)


def _new_id() -> uuid.UUID:
    drawn: Iterable[uuid.UUID] = iter(uuid.uuid4, None)
    return next(each for each in drawn if is_usable_id(each))


def _start(settings: BrokerSettings, topic: str, brokers: int) -> Start:
    """Two numbers by chance; with a seed by the topic's name, whatever was created before it."""
    if brokers == 0:
        return Start.fixed(0)
    seed = settings.int("klamm.placement.seed")
    dice = random.Random(f"{seed}/{topic}") if seed >= 0 else _DICE
    return Start(dice.randrange(brokers), dice.randrange(brokers))
