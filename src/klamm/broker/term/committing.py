"""Turns the controller's writes into operations on the store's nodes.

Every operation travels in a multi that first checks the controller epoch's version, so a controller
that was replaced cannot change anything. Many writes share a multi; where one of them fails, the
writes of that multi are repeated one by one, so that a stale one takes no neighbour along.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, assert_never

from klamm.controller import effects as do
from klamm.controller.effects import Outcome, Stale, Stored, Write
from klamm.model.errors import ControllerFenced
from klamm.model.names import ZERO_ID, TopicPartition
from klamm.model.settings.topic import EPOCH_MAX, FROZEN, IMPORTING, is_true
from klamm.model.topics import StoredTopic
from klamm.store import layout
from klamm.store.port import Check, Create, Delete, Op, Result, Session, SetData
from klamm.store.port import Outcome as StoreOutcome

# A multi must stay below a ZooKeeper server's 1 MiB; a topic's node alone can be a big part of it.
OPS_MAX: Final = 500
BYTES_MAX: Final = 512 * 1024
_OP_OVERHEAD_BYTES: Final = 64
_UNCLEAN: Final = "unclean.leader.election.enable"


class Committer:
    """The store, for the writes of one term."""

    def __init__(self, session: Session, epoch_version: int) -> None:
        self._session = session
        self._fence = Check(layout.CONTROLLER_EPOCH, epoch_version)

    async def commit(self, writes: Sequence[Write]) -> list[Outcome]:
        """Store these, each for itself; raises ControllerFenced when the term is over."""
        known = await self._existing_parents(writes)
        outcomes: dict[int, Outcome] = {}
        together: list[tuple[int, list[Op]]] = []
        for index, write in enumerate(writes):
            if isinstance(write, do.RemoveTopic):
                continue
            together.append((index, _operations(write, known)))
        for group, results in await self._in_groups(together):
            if all(result.ok for result in results):
                outcomes.update(_stored(group, results))
            else:
                for index, _ in group:
                    outcomes[index] = await self._alone(writes[index])
        for index, write in enumerate(writes):
            if isinstance(write, do.RemoveTopic):
                outcomes[index] = await self._remove_topic(write.topic)
        return [outcomes[index] for index in range(len(writes))]

    async def _existing_parents(self, writes: Iterable[Write]) -> set[str]:
        """The nodes above partition states that are there already; those planned are added."""
        topics = {w.partition.topic: None for w in writes if isinstance(w, do.CreateState)}
        paths = [layout.partitions_path(topic) for topic in topics]
        nodes = await self._session.get_many(paths) if paths else []
        return {path for path, node in zip(paths, nodes, strict=True) if node is not None}

    async def _in_groups(
        self, items: Iterable[tuple[int, list[Op]]]
    ) -> list[tuple[list[tuple[int, list[Op]]], tuple[Result, ...]]]:
        groups = list(_grouped(items))
        multis = [[self._fence, *(op for _, ops in group for op in ops)] for group in groups]
        if not multis:
            return []
        results = await self._session.multis(multis)
        for result in results:
            self._check_fence(result)
        return list(zip(groups, results, strict=True))

    async def fenced(self, ops: Sequence[Op]) -> tuple[Result, ...]:
        """One multi behind the fence; the fence's own result is left out."""
        results = await self._session.multi([self._fence, *ops])
        self._check_fence(results)
        return results[1:]

    def _check_fence(self, results: Sequence[Result]) -> None:
        if results[0].outcome not in (StoreOutcome.OK, StoreOutcome.ROLLED_BACK):
            raise ControllerFenced("another controller was elected")

    async def _alone(self, write: Write) -> Outcome:
        """One write by itself, and what was found where it could not be done."""
        match write:
            case do.CreateState(partition, leadership):
                return await self._create_state(partition, layout.encode_state(leadership))
            case do.RemoveMarkers() | do.RemoveNotifications() | do.RewriteReassignmentRequests():
                return await self._piecewise(_operations(write, set()))
            case do.RemoveElectionRequest() | do.RewriteLeftovers():
                return await self._piecewise(_operations(write, set()))
            case do.SwapTopics():
                results = await self.fenced(_operations(write, set()))
                return Stored() if all(result.ok for result in results) else Stale(None)
            case do.UpdateState() | do.RewriteTopic() | do.ClaimProducerIds():
                (op,) = _operations(write, set())
                (result,) = await self.fenced([op])
                if result.ok:
                    return _as_stored(result)
                return await self._found_instead(write, op)
            case do.RemoveTopic(topic):
                return await self._remove_topic(topic)
            case _:
                assert_never(write)

    async def _found_instead(self, write: Write, op: Op) -> Outcome:
        node = await self._session.get(op.path)
        if node is None:
            return Stale(None)
        version = node.stat.version
        if isinstance(op, SetData) and node.data == op.data and version == op.version + 1:
            return Stored(version)  # our own write, whose answer was lost
        if isinstance(write, do.UpdateState):
            return Stale(layout.decode_state(node.data, version), version)
        if isinstance(write, do.ClaimProducerIds):
            block = layout.decode_producer_id_block(node.data)
            return Stale(block, version)
        topic = layout.decode_topic(node.data)
        return Stale(topic_node(topic, version) if topic else None, version)

    async def _create_state(self, partition: TopicPartition, data: bytes) -> Outcome:
        """Create a state whose parents may or may not be there."""
        for path in (
            layout.partitions_path(partition.topic),
            layout.partition_path(partition),
        ):
            (parent,) = await self.fenced([Create(path)])
            if parent.outcome not in (StoreOutcome.OK, StoreOutcome.NODE_EXISTS):
                return Stale(None)
        path = layout.state_path(partition)
        (result,) = await self.fenced([Create(path, data)])
        if result.ok:
            return Stored(0)
        node = await self._session.get(path)
        if node is None:
            return Stale(None)
        if node.data == data and node.stat.version == 0:
            return Stored(0)  # our own write, whose answer was lost
        return Stale(layout.decode_state(node.data, node.stat.version), node.stat.version)

    async def _piecewise(self, ops: Sequence[Op]) -> Outcome:
        """Operations that do not depend on each other; one whose node is gone has been done."""
        for op in ops:
            (result,) = await self.fenced([op])
            if result.outcome is StoreOutcome.NO_NODE and isinstance(op, SetData):
                for path in layout.with_parents([layout.parent(op.path)]):
                    await self.fenced([Create(path)])
                await self.fenced([Create(op.path, op.data)])
        return Stored()

    async def _remove_topic(self, topic: str) -> Outcome:
        """Remove a topic bottom-up; its marker goes last, in one multi with the topic itself."""
        root = layout.partitions_path(topic)
        children = await self._session.children(root)
        below: list[tuple[int, list[Op]]] = []
        if children:
            leaves = [f"{root}/{child}/state" for child in children]
            states = await self._session.get_many(leaves)
            for child, leaf, state in zip(children, leaves, states, strict=True):
                ops: list[Op] = [Delete(leaf)] if state is not None else []
                below.append((0, [*ops, Delete(f"{root}/{child}")]))
        for _, results in await self._in_groups(below):
            if not all(result.ok for result in results):
                return Stale(None)
        last = (
            root,
            layout.topic_path(topic),
            layout.topic_config_path(topic),
            layout.delete_topic_path(topic),
        )
        nodes = await self._session.get_many(last)
        removals: list[Op] = [
            Delete(path) for path, node in zip(last, nodes, strict=True) if node is not None
        ]
        results = await self.fenced(removals)
        return Stored() if all(result.ok for result in results) else Stale(None)


def topic_node(
    topic: layout.TopicNode, version: int, own: Mapping[str, str] | None = None
) -> StoredTopic:
    """A topic as the core sees it. One without an id keeps the zero id until it is given one."""
    own = own or {}
    unclean = own.get(_UNCLEAN)
    return StoredTopic(
        topic_id=topic.topic_id or ZERO_ID,
        partitions=topic.assignments,
        version=version,
        original=topic.original_replicas,
        unclean=None if unclean is None else is_true(unclean),
        frozen=is_true(own.get(FROZEN)),
        importing=is_true(own.get(IMPORTING)),
        first_epoch=_epoch_of(own.get("klamm.import.leader.epoch", "")),
        id_missing=topic.topic_id is None,
    )


def _epoch_of(text: str) -> int:
    """A leader epoch as settings have it; what is none, which no API lets in, counts as 0."""
    return min(int(text), EPOCH_MAX) if text.isascii() and text.isdecimal() else 0


def _operations(write: Write, parents: set[str]) -> list[Op]:
    """The operations of one write; `parents` are the nodes that need not be created."""
    match write:
        case do.CreateState(partition, leadership):
            ops: list[Op] = []
            root = layout.partitions_path(partition.topic)
            if root not in parents:
                parents.add(root)
                ops.append(Create(root))
            ops.append(Create(layout.partition_path(partition)))
            ops.append(Create(layout.state_path(partition), layout.encode_state(leadership)))
            return ops
        case do.UpdateState(partition, leadership):
            data = layout.encode_state(leadership)
            return [SetData(layout.state_path(partition), data, write.replaces)]
        case do.RewriteTopic(topic, node):
            stored = layout.TopicNode(node.topic_id, node.partitions, node.original)
            data = layout.encode_topic(stored)
            return [SetData(layout.topic_path(topic), data, node.version)]
        case do.SwapTopics(first, second):
            return [*_swap_operations(first), *_swap_operations(second)]
        case do.RemoveMarkers(topics):
            return [Delete(layout.delete_topic_path(topic)) for topic in topics]
        case do.RemoveNotifications(log_dirs, isr_changes):
            return [
                *(Delete(f"{layout.LOG_DIR_EVENTS}/{name}") for name in log_dirs),
                *(Delete(f"{layout.ISR_CHANGES}/{name}") for name in isr_changes),
            ]
        case do.RewriteReassignmentRequests(remaining):
            if not remaining:
                return [Delete(layout.REASSIGN_PARTITIONS)]
            return [SetData(layout.REASSIGN_PARTITIONS, layout.encode_reassignment(remaining))]
        case do.RemoveElectionRequest():
            return [Delete(layout.PREFERRED_REPLICA_ELECTION)]
        case do.ClaimProducerIds(block, replaces):
            data = layout.encode_producer_id_block(block)
            return [SetData(layout.PRODUCER_ID_BLOCK, data, replaces)]
        case do.RewriteLeftovers(broker, leftovers):
            path = layout.forgotten_path(broker)
            if not leftovers:
                return [Delete(path)]
            replicas = [layout.ForgottenReplica(id, p) for p, id in leftovers.items()]
            return [SetData(path, layout.encode_forgotten(replicas))]
        case do.RemoveTopic():
            raise AssertionError("removing a topic takes several multis")
        case _:
            assert_never(write)


def _swap_operations(side: do.SwappedTopic) -> Iterator[Op]:
    """The operations that give a name another topic's node and states."""
    node, name = side.node, side.name
    data = layout.encode_topic(layout.TopicNode(node.topic_id, node.partitions, node.original))
    yield SetData(layout.topic_path(name), data, node.version)
    for index, leadership in sorted(side.states.items()):
        place = TopicPartition(name, index)
        state = layout.encode_state(leadership)
        if index in side.replaces:
            yield SetData(layout.state_path(place), state, side.replaces[index])
        else:
            yield Create(layout.partition_path(place))
            yield Create(layout.state_path(place), state)
    for index in sorted(side.replaces.keys() - side.states.keys()):
        place = TopicPartition(name, index)
        yield Delete(layout.state_path(place), side.replaces[index])
        yield Delete(layout.partition_path(place))


def _grouped(items: Iterable[tuple[int, list[Op]]]) -> Iterator[list[tuple[int, list[Op]]]]:
    group: list[tuple[int, list[Op]]] = []
    ops_count = size_bytes = 0
    for index, ops in items:
        added = sum(_size_bytes(op) for op in ops)
        if group and (ops_count + len(ops) > OPS_MAX or size_bytes + added > BYTES_MAX):
            yield group
            group, ops_count, size_bytes = [], 0, 0
        group.append((index, ops))
        ops_count += len(ops)
        size_bytes += added
    if group:
        yield group


def _size_bytes(op: Op) -> int:
    data = getattr(op, "data", None)
    return len(op.path) + len(data or b"") + _OP_OVERHEAD_BYTES


def _stored(
    group: Sequence[tuple[int, list[Op]]], results: Sequence[Result]
) -> Iterator[tuple[int, Outcome]]:
    at = 1  # the fence comes first
    for index, ops in group:
        at += len(ops)
        yield index, _as_stored(results[at - 1]) if ops else Stored()


def _as_stored(result: Result) -> Stored:
    return Stored(result.stat.version if result.stat else 0)
