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
from dataclasses import fields, is_dataclass
from typing import Any, Final, Protocol, Self, TypeVar

from klamm.client import metadata
from klamm.client.addresses import Address, parse_bootstrap, text
from klamm.client.aio.connection import CONNECT_TIMEOUT_S, AfterConnect, Connection
from klamm.client.aio.deadline import Deadline
from klamm.client.errors import (
    ClientError,
    ConnectionLost,
    DeadlineExceeded,
    Distrusted,
    Unreachable,
    VersionMismatch,
    code_of,
    nobody,
)
from klamm.client.metadata import GROUP_KEY, TRANSACTION_KEY, Picture
from klamm.client.retries import CONTROLLER_MOVED, COORDINATOR_MOVED, pauses
from klamm.client.security import Security
from klamm.client.settings import ClientSettings
from klamm.model.errors import ErrorCode, ProtocolError, RequestRefused
from klamm.model.names import TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.private import SOFTWARE_NAME

TIMEOUT_S: Final = 30.0

__all__ = [
    "GROUP_KEY",
    "TIMEOUT_S",
    "TRANSACTION_KEY",
    "Client",
    "Picture",
    "code_of",
    "error_codes",
    "parse_bootstrap",
]


class Coded(Protocol):
    """A result that says by a code how it went."""

    error_code: int


A = TypeVar("A")
R = TypeVar("R", bound=Coded)


class Client:
    """Connections to a cluster, opened when needed and kept; `async with` closes them."""

    def __init__(
        self,
        bootstrap: str | Sequence[Address],
        *,
        client_id: str | None = SOFTWARE_NAME,
        timeout_s: float = TIMEOUT_S,
        request_timeout_s: float = math.inf,
        security: Security | None = None,
        introduce: AfterConnect | None = None,
    ) -> None:
        """A call has `timeout_s` in all, each request it takes no more than the other.

        `introduce` is called with each connection before anything else uses it.
        """
        self.bootstrap = parse_bootstrap(bootstrap) if isinstance(bootstrap, str) else bootstrap
        self.client_id = client_id
        self.timeout_s = timeout_s
        self.request_timeout_s = request_timeout_s
        self._security = security or Security()
        self._steps = () if introduce is None else (introduce,)
        self.picture = Picture()
        self._connections: dict[tuple[str, int], Connection] = {}
        self._opening: dict[tuple[str, int], asyncio.Lock] = {}
        self._coordinators: dict[tuple[int, str], int] = {}

    @classmethod
    def of(cls, bootstrap: str, settings: ClientSettings) -> Self:
        """A client with the settings of a properties file."""
        return cls(
            bootstrap,
            client_id=settings.client_id,
            timeout_s=settings.timeout_s,
            request_timeout_s=settings.request_timeout_s,
            security=settings.security,
        )

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
            made = await Connection.open(
                host,
                port,
                self.client_id,
                timeout_s=patience_s,
                security=self._security,
                negotiates=True,
                steps=self._steps,
            )
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
        addresses = [node.address for node in self.picture.nodes.values()]
        faults: list[Exception] = []
        for host, port in dict.fromkeys([*self._connections, *addresses, *self.bootstrap]):
            try:
                return await self.connection(host, port, deadline)
            except Distrusted:
                raise  # the others would say the same
            except (ClientError, ProtocolError) as fault:
                faults.append(fault)
        raise nobody(faults)

    async def reach(self) -> None:
        """Has any broker answer once, and raises what is in the way of that at once.

        A client waits for a cluster that restarts; a person who mistyped a port or forgot a
        password should not have to.
        """
        deadline = self.deadline()
        connection = await self.to_any(deadline)
        await self._ask(connection, ApiKey.METADATA, metadata.request([]), deadline)

    async def refresh(
        self,
        topics: Iterable[str] | None = None,
        *,
        create: bool = False,
        deadline: Deadline | None = None,
    ) -> Picture:
        """A fresh picture: of these topics, or of all of them."""
        deadline = deadline or self.deadline()
        names = None if topics is None else list(topics)
        request = metadata.request(names, create=create)
        response = await self.anywhere(ApiKey.METADATA, request, deadline=deadline)
        before = None if names is None else self.picture.topics
        self.picture = metadata.picture_of(response, before)
        return self.picture

    async def anywhere(
        self,
        key: ApiKey,
        message: Any,
        *,
        deadline: Deadline | None = None,
        again_on: frozenset[ErrorCode] = frozenset(),
    ) -> Any:
        """The answer of any broker; one with these codes is waited out."""
        deadline = deadline or self.deadline()

        async def once() -> Any:
            return await self._ask(await self.to_any(deadline), key, message, deadline)

        return await self._until(deadline, once, again_on=again_on)

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

        return await self._until(deadline, once, again_on=CONTROLLER_MOVED)

    async def ask_controller(
        self, key: int, body: Mapping[str, Any], *, deadline: Deadline | None = None
    ) -> dict[str, Any]:
        """The controller's answer to one of klamm's private requests."""
        deadline = deadline or self.deadline()

        async def once() -> dict[str, Any]:
            await self.refresh([], deadline=deadline)
            connection = await self.to_node(self.picture.controller_id, deadline)
            if key not in connection.versions:
                place = text((connection.host, connection.port))
                raise VersionMismatch(f"{place} is no klamm broker")
            return await connection.ask(key, body, timeout_s=deadline.left_s())

        answer: dict[str, Any] = await self._until(deadline, once, again_on=CONTROLLER_MOVED)
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
            if COORDINATOR_MOVED.intersection(error_codes(response)):
                self._coordinators.pop((kind, name), None)
            return response

        return await self._until(deadline, once, again_on=COORDINATOR_MOVED)

    async def coordinator(self, group: str) -> metadata.BrokerNode:
        """The broker that coordinates a group."""
        deadline = self.deadline()
        node_id = await self._coordinator(metadata.GROUP_KEY, group, deadline)
        return (await self.refresh([], deadline=deadline)).nodes[node_id]

    async def _coordinator(self, kind: int, name: str, deadline: Deadline) -> int:
        known = self._coordinators.get((kind, name))
        if known is not None and known in self.picture.nodes:
            return known
        await self.refresh([], deadline=deadline)
        request = metadata.coordinator_request(name, kind)
        connection = await self.to_any(deadline)
        response = await self._ask(connection, ApiKey.FIND_COORDINATOR, request, deadline)
        node_id = metadata.coordinator_of(name, response).id
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
        """The answer of each partition's leader; only errors that pass by themselves are retried.

        When time is over the last answer stands, and `DeadlineExceeded` is raised only for a
        partition that had none at all.
        """
        deadline = deadline or self.deadline()
        done: dict[TopicPartition, R] = {}
        last: dict[TopicPartition, R] = {}
        faults: dict[TopicPartition, str] = {}
        waits = pauses()
        while missing := {tp: a for tp, a in wanted.items() if tp not in done}:
            for tp, outcome in (await self._round(missing, ask, deadline)).items():
                if isinstance(outcome, str):
                    faults[tp] = outcome
                elif code_of(outcome.error_code).is_retriable:
                    last[tp] = outcome
                else:
                    done[tp] = outcome
            if len(done) < len(wanted) and not await deadline.pause(next(waits)):
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
        except Unreachable as fault:
            return dict.fromkeys(wanted, str(fault))
        for tp, argument in wanted.items():
            leader = self.picture.leader(tp)
            if leader is None:
                outcomes[tp] = self.picture.why_no_leader(tp)
            else:
                by_node.setdefault(leader.leader_id, {})[tp] = argument

        distrusted: list[Distrusted] = []

        async def one(node_id: int, part: Mapping[TopicPartition, A]) -> None:
            try:
                outcomes.update(await ask(await self.to_node(node_id, deadline), part))
            except Distrusted as fault:
                distrusted.append(fault)
            except (ClientError, ProtocolError) as fault:
                outcomes.update(dict.fromkeys(part, str(fault)))

        async with asyncio.TaskGroup() as group:
            for node_id, part in by_node.items():
                group.create_task(one(node_id, part))
        if distrusted:
            raise distrusted[0]
        return outcomes

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
        waits = pauses()
        while True:
            fault: Exception | None = None
            response = None
            try:
                response = await once()
                if not again_on.intersection(error_codes(response)):
                    return response
            except Unreachable as lost:
                fault = lost
            except RequestRefused as refused:
                if refused.code not in again_on:
                    raise
                fault = refused
            if not await deadline.pause(next(waits)):
                if isinstance(fault, DeadlineExceeded):
                    raise fault
                if fault is not None:
                    raise DeadlineExceeded(f"gave up: {fault}") from fault
                return response


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
