"""A cluster as a client sees it: who is there, who leads what, and how to reach them.

The picture comes from Metadata and is thrown away whenever an answer shows that it is old. A caller
gives a request and a place (any broker, one broker, the controller, a group's coordinator, the
leaders of partitions) and a time; within that time a lost connection, a place that moved and an
error that passes by itself are tried again, on a fresh picture. What is returned then is an answer,
not necessarily a yes.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final, Protocol, Self, TypeVar

from klamm.client.connection import CONNECT_TIMEOUT_S, Connection
from klamm.client.deadline import Deadline
from klamm.client.errors import ClientError, ConnectionLost, DeadlineExceeded, VersionMismatch
from klamm.model.errors import ErrorCode, ProtocolError, RequestRefused, UsageError
from klamm.model.names import TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import find_coordinator, metadata
from klamm.protocol.private import SOFTWARE_NAME

TIMEOUT_S: Final = 30.0
# The picture is asked for anew this long after it turned out to be old.
_PAUSE_S: Final = 0.05
_PAUSE_S_MAX: Final = 1.0
_NOT_THERE: Final = frozenset({ErrorCode.NOT_CONTROLLER})
_COORDINATOR_MOVED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
GROUP_KEY: Final = 0
TRANSACTION_KEY: Final = 1


@dataclass(frozen=True, slots=True)
class Node:
    """A broker and where it listens."""

    id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Picture:
    """What the last Metadata answer said."""

    nodes: Mapping[int, Node] = field(default_factory=dict)
    controller_id: int = -1
    cluster_id: str | None = None
    topics: Mapping[str, metadata.MetadataResponseTopic] = field(default_factory=dict)

    def leader(self, tp: TopicPartition) -> metadata.MetadataResponsePartition | None:
        """The partition as last seen, when somebody leads it."""
        topic = self.topics.get(tp.topic)
        for partition in topic.partitions if topic else ():
            if partition.partition_index == tp.partition:
                return partition if partition.leader_id in self.nodes else None
        return None


class Coded(Protocol):
    """A result that says by a code how it went."""

    error_code: int


A = TypeVar("A")
R = TypeVar("R", bound=Coded)


Introduce = Callable[[Connection], Awaitable[None]]


class Client:
    """Connections to a cluster, opened when needed and kept; `async with` closes them."""

    def __init__(
        self,
        bootstrap: str | Sequence[tuple[str, int]],
        *,
        client_id: str | None = SOFTWARE_NAME,
        timeout_s: float = TIMEOUT_S,
        request_timeout_s: float = math.inf,
        introduce: Introduce | None = None,
    ) -> None:
        """A call has `timeout_s` in all, each request it takes no more than the other.

        `introduce` is called with each connection before anything else uses it.
        """
        self.bootstrap = parse_bootstrap(bootstrap) if isinstance(bootstrap, str) else bootstrap
        self.client_id = client_id
        self.timeout_s = timeout_s
        self.request_timeout_s = request_timeout_s
        self._introduce = introduce
        self.picture = Picture()
        self._connections: dict[tuple[str, int], Connection] = {}
        self._opening: dict[tuple[str, int], asyncio.Lock] = {}
        self._coordinators: dict[tuple[int, str], int] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes every connection."""
        connections, self._connections = list(self._connections.values()), {}
        for connection in connections:
            await connection.close()

    def deadline(self, timeout_s: float | None = None) -> Deadline:
        """The end of the time given, or of the client's own."""
        whole_s = self.timeout_s if timeout_s is None else timeout_s
        return Deadline.after(whole_s, self.request_timeout_s)

    async def connection(self, host: str, port: int, deadline: Deadline) -> Connection:
        """The connection to this address, negotiated."""
        address = (host, port)
        async with self._opening.setdefault(address, asyncio.Lock()):
            known = self._connections.get(address)
            if known is not None and not known.is_closed:
                return known
            patience_s = min(CONNECT_TIMEOUT_S, deadline.left_s())
            made = await Connection.open(host, port, self.client_id, timeout_s=patience_s)
            try:
                if self._introduce is not None:
                    await self._introduce(made)
                await made.negotiate(timeout_s=patience_s)
            except BaseException:
                await made.close()
                raise
            self._connections[address] = made
            return made

    async def to_node(self, node_id: int, deadline: Deadline) -> Connection:
        """The connection to a broker of the current picture."""
        node = self.picture.nodes.get(node_id)
        if node is None:
            raise ConnectionLost(f"broker {node_id} is not in the cluster's metadata")
        return await self.connection(node.host, node.port, deadline)

    async def to_any(self, deadline: Deadline) -> Connection:
        """A connection to whoever can be reached: a known broker, or one of the first addresses."""
        addresses = [(n.host, n.port) for n in self.picture.nodes.values()]
        faults = []
        for host, port in dict.fromkeys([*self._connections, *addresses, *self.bootstrap]):
            try:
                return await self.connection(host, port, deadline)
            except ClientError as fault:
                faults.append(str(fault))
        raise ConnectionLost("no broker can be reached: " + "; ".join(faults))

    async def refresh(
        self,
        topics: Iterable[str] | None = None,
        *,
        create: bool = False,
        deadline: Deadline | None = None,
    ) -> Picture:
        """A fresh picture: of these topics, or of all of them."""
        deadline = deadline or self.deadline()
        names = None if topics is None else [metadata.MetadataRequestTopic(name=t) for t in topics]
        request = metadata.Request(topics=names, allow_auto_topic_creation=create)
        response = await self.anywhere(ApiKey.METADATA, request, deadline=deadline)
        seen = {t.name: t for t in response.topics if t.name is not None}
        self.picture = Picture(
            nodes={b.node_id: Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers},
            controller_id=response.controller_id,
            cluster_id=response.cluster_id,
            topics=seen if topics is None else {**self.picture.topics, **seen},
        )
        return self.picture

    async def anywhere(self, key: ApiKey, message: Any, *, deadline: Deadline | None = None) -> Any:
        """The answer of any broker."""
        deadline = deadline or self.deadline()

        async def once() -> Any:
            return await self._ask(await self.to_any(deadline), key, message, deadline)

        return await self._until(deadline, once)

    async def at_node(
        self, node_id: int, key: ApiKey, message: Any, *, deadline: Deadline | None = None
    ) -> Any:
        """The answer of one broker."""
        deadline = deadline or self.deadline()

        async def once() -> Any:
            if node_id not in self.picture.nodes:
                await self.refresh([], deadline=deadline)
            connection = await self.to_node(node_id, deadline)
            return await self._ask(connection, key, message, deadline)

        return await self._until(deadline, once)

    async def at_controller(
        self, key: ApiKey, message: Any, *, deadline: Deadline | None = None
    ) -> Any:
        """The answer of the controller, wherever it moves meanwhile."""
        deadline = deadline or self.deadline()

        async def once() -> Any:
            await self.refresh([], deadline=deadline)
            connection = await self.to_node(self.picture.controller_id, deadline)
            return await self._ask(connection, key, message, deadline)

        return await self._until(deadline, once, again_on=_NOT_THERE)

    async def ask_controller(
        self, key: int, body: Mapping[str, Any], *, deadline: Deadline | None = None
    ) -> dict[str, Any]:
        """What the controller answers to one of klamm's private requests."""
        deadline = deadline or self.deadline()

        async def once() -> dict[str, Any]:
            await self.refresh([], deadline=deadline)
            connection = await self.to_node(self.picture.controller_id, deadline)
            if key not in connection.versions:
                raise VersionMismatch(f"{connection.host}:{connection.port} is no klamm broker")
            return await connection.ask(key, body, timeout_s=deadline.left_s())

        answer: dict[str, Any] = await self._until(deadline, once, again_on=_NOT_THERE)
        return answer

    async def at_coordinator(
        self,
        name: str,
        key: ApiKey,
        message: Any,
        *,
        kind: int = GROUP_KEY,
        deadline: Deadline | None = None,
        at_most: int | None = None,
    ) -> Any:
        """The answer of the broker that coordinates this group or transactional id."""
        deadline = deadline or self.deadline()

        async def once() -> Any:
            node_id = await self._coordinator(kind, name, deadline)
            try:
                connection = await self.to_node(node_id, deadline)
                response = await self._ask(connection, key, message, deadline, at_most)
            except ClientError:
                self._coordinators.pop((kind, name), None)
                raise
            if _COORDINATOR_MOVED.intersection(error_codes(response)):
                self._coordinators.pop((kind, name), None)
            return response

        return await self._until(deadline, once, again_on=_COORDINATOR_MOVED)

    async def _coordinator(self, kind: int, name: str, deadline: Deadline) -> int:
        known = self._coordinators.get((kind, name))
        if known is not None and known in self.picture.nodes:
            return known
        await self.refresh([], deadline=deadline)
        request = find_coordinator.Request(key=name, key_type=kind, coordinator_keys=[name])
        connection = await self.to_any(deadline)
        response = await self._ask(connection, ApiKey.FIND_COORDINATOR, request, deadline)
        answer = response.coordinators[0] if response.coordinators else response
        if answer.error_code in _COORDINATOR_MOVED:
            raise ConnectionLost(f"{name!r} has no coordinator yet")
        if answer.error_code:
            raise RequestRefused(code_of(answer.error_code), answer.error_message)
        node_id = int(answer.node_id)
        self._coordinators[kind, name] = node_id
        return node_id

    async def at_leaders(
        self,
        wanted: Mapping[TopicPartition, A],
        ask: Callable[
            [Connection, Mapping[TopicPartition, A]], Awaitable[Mapping[TopicPartition, R]]
        ],
        *,
        deadline: Deadline | None = None,
    ) -> dict[TopicPartition, R]:
        """What the leader of each partition says; only answers that pass by themselves are awaited.

        When time is over the last answer stands, and `DeadlineExceeded` is raised only for a
        partition that had none at all.
        """
        deadline = deadline or self.deadline()
        done: dict[TopicPartition, R] = {}
        last: dict[TopicPartition, R] = {}
        faults: dict[TopicPartition, str] = {}
        pauses = _pauses()
        while missing := {tp: a for tp, a in wanted.items() if tp not in done}:
            for tp, outcome in (await self._round(missing, ask, deadline)).items():
                if isinstance(outcome, str):
                    faults[tp] = outcome
                elif code_of(outcome.error_code).is_retriable:
                    last[tp] = outcome
                else:
                    done[tp] = outcome
            if len(done) < len(wanted) and not await deadline.pause(next(pauses)):
                break
        for tp in wanted:
            if tp not in done and tp not in last:
                raise DeadlineExceeded(f"{tp}: {faults.get(tp, 'nobody answered in time')}")
        return {tp: done[tp] if tp in done else last[tp] for tp in wanted}

    async def _round(
        self,
        wanted: Mapping[TopicPartition, A],
        ask: Callable[
            [Connection, Mapping[TopicPartition, A]], Awaitable[Mapping[TopicPartition, R]]
        ],
        deadline: Deadline,
    ) -> dict[TopicPartition, R | str]:
        """One question to every leader concerned; a text says why there is no answer."""
        outcomes: dict[TopicPartition, R | str] = {}
        by_node: dict[int, dict[TopicPartition, A]] = {}
        try:
            await self.refresh({tp.topic for tp in wanted}, deadline=deadline)
        except ClientError as fault:
            return dict.fromkeys(wanted, str(fault))
        for tp, argument in wanted.items():
            leader = self.picture.leader(tp)
            if leader is None:
                outcomes[tp] = self._why_no_leader(tp)
            else:
                by_node.setdefault(leader.leader_id, {})[tp] = argument

        async def one(node_id: int, part: Mapping[TopicPartition, A]) -> None:
            try:
                outcomes.update(await ask(await self.to_node(node_id, deadline), part))
            except (ClientError, ProtocolError) as fault:
                outcomes.update(dict.fromkeys(part, str(fault)))

        async with asyncio.TaskGroup() as group:
            for node_id, part in by_node.items():
                group.create_task(one(node_id, part))
        return outcomes

    def _why_no_leader(self, tp: TopicPartition) -> str:
        topic = self.picture.topics.get(tp.topic)
        if topic is None or topic.error_code:
            code = code_of(topic.error_code if topic else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return f"{code.name} for topic {tp.topic!r}"
        return "it has no leader now"

    async def _ask(
        self,
        connection: Connection,
        key: ApiKey,
        message: Any,
        deadline: Deadline,
        at_most: int | None = None,
    ) -> Any:
        version = connection.version_of(key, at_most)
        return await connection.request(key, version, message, timeout_s=deadline.left_s())

    async def _until(
        self,
        deadline: Deadline,
        once: Callable[[], Awaitable[Any]],
        *,
        again_on: frozenset[ErrorCode] = frozenset(),
    ) -> Any:
        """Tries until there is an answer without these codes, or time is over."""
        pauses = _pauses()
        while True:
            fault: ClientError | None = None
            response = None
            try:
                response = await once()
                if not again_on.intersection(error_codes(response)):
                    return response
            except (ConnectionLost, DeadlineExceeded) as lost:
                fault = lost
            if not await deadline.pause(next(pauses)):
                if isinstance(fault, DeadlineExceeded):
                    raise fault
                if fault is not None:
                    raise DeadlineExceeded(f"gave up: {fault}") from fault
                return response


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """`host:port,host:port` as addresses."""
    addresses = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        host, _, port = part.rpartition(":")
        if not host or not port.isdigit() or int(port) > 65535:
            raise UsageError(f"{part!r} is not an address like localhost:9092")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise UsageError("the list of bootstrap servers is empty")
    return addresses


def code_of(number: int) -> ErrorCode:
    """The code, or UNKNOWN_SERVER_ERROR for one that this side has never heard of."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def error_codes(message: Any) -> Iterator[int]:
    """Every error code in an answer, at whatever depth; a private answer has one."""
    if isinstance(message, dict):
        yield message["error_code"]
        return
    for item in fields(message):
        value = getattr(message, item.name)
        if item.name == "error_code":
            yield value
        elif is_dataclass(value):
            yield from error_codes(value)
        elif isinstance(value, list) and value and is_dataclass(value[0]):
            for element in value:
                yield from error_codes(element)


def _pauses() -> Iterator[float]:
    pause = _PAUSE_S
    while True:
        yield pause
        pause = min(pause * 2, _PAUSE_S_MAX)
