"""Reads the facts behind a hint.

A watch says only that something may have changed. When its turn comes, the facts are read here and
become events; the core compares them with what it knows.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from klamm.broker.term.committing import topic_node
from klamm.controller import effects, events
from klamm.controller.context import Context
from klamm.model.brokers import Registration
from klamm.model.leadership import Leadership
from klamm.model.names import BrokerId, TopicPartition, is_usable_id, partition_fault
from klamm.model.topics import StoredTopic
from klamm.store import layout
from klamm.store.port import Node, Session

# What is made or deleted in bulk is dealt with in steps of about so many partitions, so that a
# broker's failure does not have to wait for all of it.
STEP_PARTITIONS: Final = 1000


@dataclass(frozen=True, slots=True)
class BrokersHint:
    """Brokers may have come, gone or changed."""


@dataclass(frozen=True, slots=True)
class TopicsHint:
    """Topics may have come or gone."""


@dataclass(frozen=True, slots=True)
class TopicHint:
    """A topic may have been rewritten."""

    topic: str


@dataclass(frozen=True, slots=True)
class AllTopicsHint:
    """Any topic may have been rewritten without a word."""


@dataclass(frozen=True, slots=True)
class MarkersHint:
    """Somebody may have asked to delete topics."""


@dataclass(frozen=True, slots=True)
class LogDirsHint:
    """A broker may have lost a log directory."""


@dataclass(frozen=True, slots=True)
class IsrChangesHint:
    """A leader of an older kind may have stored an ISR itself."""


@dataclass(frozen=True, slots=True)
class ReassignmentsHint:
    """A legacy tool may have asked to move partitions."""


@dataclass(frozen=True, slots=True)
class ElectionsHint:
    """A legacy tool may have asked for preferred elections."""


Hint = (
    BrokersHint
    | TopicsHint
    | TopicHint
    | AllTopicsHint
    | MarkersHint
    | LogDirsHint
    | IsrChangesHint
    | ReassignmentsHint
    | ElectionsHint
)


Topics = dict[str, StoredTopic]
States = dict[TopicPartition, Leadership]


class AtHand(Protocol):
    """The source of topics and states that are known already (`standby.py`)."""

    async def catch_up(self) -> tuple[Topics, States] | None:
        """All of them as they are now; nothing is awaited between that and the return."""
        ...

    async def close(self) -> None:
        """Drops what was known: it was taken over, or is not wanted."""
        ...


class Observer:
    """Reads for one term; `draw_id` gives ids for topics that were made without one.

    `watch` is called before a topic or a broker is read, so that no change falls between the two.
    """

    def __init__(
        self,
        session: Session,
        *,
        draw_id: Callable[[], uuid.UUID],
        watch: Callable[[str, Hint], None],
    ) -> None:
        self._session = session
        self._draw_id = draw_id
        self._watch = watch

    async def observe(self, hint: Hint, context: Context) -> list[events.Event]:
        """The events behind a hint, as things are now; nothing if nothing is new."""
        match hint:
            case BrokersHint():
                return [events.BrokersChanged(await self.brokers())]
            case TopicsHint():
                return await self._topics_changed(context)
            case TopicHint(topic):
                return await self._topics_modified([topic], context)
            case AllTopicsHint():
                return await self._topics_modified(list(context.topics), context)
            case MarkersHint():
                # A marker may be seen before its topic is: look for topics first.
                changes = await self._topics_changed(context)
                return [*changes, *await self._markers(changes, context)]
            case LogDirsHint():
                return await self._log_dirs_failed()
            case IsrChangesHint():
                return await self._isr_changes_noticed()
            case ReassignmentsHint():
                asked = await self._reassignment_requests()
                return [events.ReassignmentsRequested(asked)] if asked is not None else []
            case ElectionsHint():
                wanted = await self._election_requests()
                return [events.ElectionsRequested(wanted)] if wanted is not None else []

    async def everything(self, standby: AtHand | None = None) -> events.TermBegan:
        """All the facts a new controller needs; a standby may have most of them."""
        brokers = await self.brokers()
        facts = None if standby is None else await standby.catch_up()
        if facts is None:
            topics = await self.topics(await self._names(layout.TOPICS))
            states = await self.states(
                [
                    TopicPartition(name, index)
                    for name, node in topics.items()
                    for index in node.partitions
                ]
            )
        else:
            topics, states = facts
            for name in topics:
                self._watch(layout.topic_path(name), TopicHint(name))
        return events.TermBegan(
            brokers=brokers,
            topics=topics,
            states=states,
            markers=await self._names(layout.DELETE_TOPICS),
            reassignment_requests=await self._reassignment_requests(),
            election_requests=await self._election_requests() or (),
            log_dir_notices=await self._names(layout.LOG_DIR_EVENTS),
            isr_notices=await self._names(layout.ISR_CHANGES),
            leftovers=await self._leftovers(),
        )

    async def states(self, partitions: Sequence[TopicPartition]) -> States:
        """The states of those of these partitions that have one."""
        nodes = await self._session.get_many([layout.state_path(p) for p in partitions])
        states = {}
        for partition, node in zip(partitions, nodes, strict=True):
            state = layout.decode_state(node.data, node.stat.version) if node else None
            if state is not None:
                states[partition] = state
        return states

    async def brokers(self) -> dict[BrokerId, Registration]:
        """The registered brokers."""
        ids = sorted(BrokerId(int(n)) for n in await self._names(layout.BROKER_IDS))
        for id in ids:
            self._watch(layout.broker_path(id), BrokersHint())
        nodes = await self._session.get_many([layout.broker_path(id) for id in ids])
        found = {}
        for id, node in zip(ids, nodes, strict=True):
            broker = layout.decode_broker(id, node.data, node.stat.czxid) if node else None
            if broker is not None:
                found[id] = broker
        return found

    async def producer_ids(self, event: events.ProducerIdsAsked) -> events.ProducerIdsAsked:
        """The question with the block that was handed out last."""
        node = await self._session.get(layout.PRODUCER_ID_BLOCK)
        block = layout.decode_producer_id_block(node.data) if node else None
        return replace(
            event,
            last=block,
            version=node.stat.version if node else 0,
        )

    async def _topics_changed(self, context: Context) -> list[events.Event]:
        names = await self._names(layout.TOPICS)
        present = set(names)
        appeared = await self.topics([name for name in names if name not in context.topics])
        vanished = tuple(name for name in context.topics if name not in present)
        if not appeared and not vanished:
            return []
        first, *rest = _steps({name: len(node.partitions) for name, node in appeared.items()})
        changes = [events.TopicsChanged({name: appeared[name] for name in first}, vanished)]
        changes += [events.TopicsChanged({name: appeared[name] for name in step}) for step in rest]
        return list(changes)

    async def _markers(
        self, changes: Iterable[events.Event], context: Context
    ) -> list[events.Event]:
        new = {
            name: len(node.partitions)
            for change in changes
            if isinstance(change, events.TopicsChanged)
            for name, node in change.appeared.items()
        }
        known = context.topics
        sizes = {
            name: len(known[name].partitions) if name in known else new.get(name, 0)
            for name in await self._names(layout.DELETE_TOPICS)
        }
        return [events.MarkersChanged(step) for step in _steps(sizes)]

    async def _topics_modified(self, names: Sequence[str], context: Context) -> list[events.Event]:
        # One that is not taken up yet, or is gone: the hint about all topics covers both. One of
        # the version that is known is the echo of a write of our own.
        found = await self.topics([name for name in names if name in context.topics])
        known = context.topics
        return [
            events.TopicModified(name, node)
            for name, node in found.items()
            if (node.version, node.topic_id) != (known[name].version, known[name].id)
        ]

    async def topics(self, names: Sequence[str]) -> dict[str, StoredTopic]:
        """Those of these topics that there are."""
        for name in names:
            self._watch(layout.topic_path(name), TopicHint(name))
        nodes = await self._session.get_many([layout.topic_path(name) for name in names])
        configs = await self._session.get_many([layout.topic_config_path(name) for name in names])
        found = {}
        for name, node, config in zip(names, nodes, configs, strict=True):
            topic = layout.decode_topic(node.data) if node else None
            if node is not None and topic is not None:
                seen = topic_node(topic, node.stat.version, _overrides(config))
                found[name] = replace(seen, topic_id=self._fresh_id()) if seen.id_missing else seen
        return found

    def _fresh_id(self) -> uuid.UUID:
        while not is_usable_id(drawn := self._draw_id()):
            pass
        return drawn

    async def _log_dirs_failed(self) -> list[events.Event]:
        names = await self._names(layout.LOG_DIR_EVENTS)
        nodes = await self._session.get_many([f"{layout.LOG_DIR_EVENTS}/{n}" for n in names])
        failed = _decoded(nodes, layout.decode_log_dir_event)
        return [events.LogDirFailed(tuple(dict.fromkeys(failed)), names)] if names else []

    async def _isr_changes_noticed(self) -> list[events.Event]:
        names = await self._names(layout.ISR_CHANGES)
        nodes = await self._session.get_many([f"{layout.ISR_CHANGES}/{name}" for name in names])
        found = (layout.decode_partitions(node.data) or () for node in nodes if node is not None)
        partitions = dict.fromkeys(
            partition
            for each in found
            for partition in each
            # The name becomes a path of the store: it must lead to a topic.
            if partition_fault(partition) is None
        )
        states = await self.states(list(partitions))
        return [events.IsrChangesNoticed(states, names)] if names else []

    async def _reassignment_requests(self) -> effects.Reassignments | None:
        """The request as it can be read, empty where it cannot; None where there is no node."""
        node = await self._session.get(layout.REASSIGN_PARTITIONS)
        return None if node is None else layout.decode_reassignment(node.data) or {}

    async def _election_requests(self) -> tuple[TopicPartition, ...] | None:
        node = await self._session.get(layout.PREFERRED_REPLICA_ELECTION)
        return (layout.decode_partitions(node.data) or ()) if node else None

    async def _leftovers(self) -> dict[BrokerId, effects.Leftovers]:
        ids = [BrokerId(int(name)) for name in await self._names(layout.FORGOTTEN)]
        nodes = await self._session.get_many([layout.forgotten_path(id) for id in ids])
        found: dict[BrokerId, effects.Leftovers] = {}
        for id, node in zip(ids, nodes, strict=True):
            replicas = layout.decode_forgotten(node.data) if node else None
            if replicas:
                found[id] = {r.partition: r.topic_id for r in replicas}
        return found

    async def _names(self, path: str) -> tuple[str, ...]:
        return await self._session.children(path) or ()


def _steps(sizes: Mapping[str, int]) -> list[tuple[str, ...]]:
    """Names in their order, cut where their partitions come to a step; at least one, even empty."""
    steps: list[list[str]] = [[]]
    size = 0
    for name, partitions in sizes.items():
        if steps[-1] and size + partitions > STEP_PARTITIONS:
            steps.append([])
            size = 0
        steps[-1].append(name)
        size += partitions
    return [tuple(step) for step in steps]


def _overrides(config: Node | None) -> Mapping[str, str]:
    return (layout.decode_config(config.data) if config else None) or {}


def _decoded(
    nodes: Iterable[Node | None], decode: Callable[[bytes | None], BrokerId | None]
) -> list[BrokerId]:
    return [
        value for node in nodes if node is not None and (value := decode(node.data)) is not None
    ]
