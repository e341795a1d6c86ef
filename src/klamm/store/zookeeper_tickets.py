"""Writes that can be sent twice and are done once.

When a connection breaks, nobody knows whether the write in flight was done. Sending it again could
do it twice; giving up would make every caller handle the doubt. So every multi carries a ticket: it
sets a small ephemeral node of this session, naming the version the node has. Whichever copy of the
multi comes first raises that version, and every other copy fails at its first operation. Such a
failure is then the answer: the ticket holds the number of the write that used it, and the results
are read back from the nodes.

A ticket is used by one write at a time, so there are as many as writes may be in flight. A write
that somebody stopped waiting for leaves its ticket as it is: the next user notices that the version
is not the one it knew, takes the new one, and by using it makes sure that the abandoned write
cannot come late.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Final, assert_never

from klamm.model.errors import StoreUnavailable
from klamm.store.port import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Node,
    Op,
    Outcome,
    Result,
    SetData,
    Stat,
)
from klamm.store.tree import split
from klamm.store.zookeeper_bridge import AnswerLost
from klamm.store.zookeeper_nodes import ServerNodes

TICKETS: Final = "/klamm.tickets"
_TICKETS_COUNT: Final = 32


@dataclass(slots=True)
class _Ticket:
    path: str
    version: int = 0


class TicketOffice:
    """Sends the multis of one session, each with a ticket."""

    def __init__(self, nodes: ServerNodes, session: int) -> None:
        self._nodes = nodes
        self._session = session
        self._numbers = count(1)
        self._free: asyncio.Queue[_Ticket] = asyncio.Queue()
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def open(self) -> None:
        """Make the tickets. When the answer is lost, the next try finds them made and unused."""
        await self._nodes.ensure(TICKETS)
        name = f"{self._session & 0xFFFF_FFFF_FFFF_FFFF:x}"  # ids of sessions may be negative
        tickets = [_Ticket(f"{TICKETS}/{name}-{number}") for number in range(_TICKETS_COUNT)]
        while True:
            try:
                first, *_ = await self._nodes.send(
                    [Create(ticket.path, ephemeral=True) for ticket in tickets]
                )
                break
            except AnswerLost:
                continue
        assert first.outcome in (Outcome.OK, Outcome.NODE_EXISTS), f"tickets of {name}: {first}"
        for ticket in tickets:
            self._free.put_nowait(ticket)

    async def multi(self, ops: Sequence[Op]) -> tuple[Result, ...]:
        with self._counted():
            ticket = await self._free.get()
            try:
                return await self._write(ticket, ops)
            finally:
                self._free.put_nowait(ticket)

    async def multis(self, groups: Iterable[Sequence[Op]]) -> list[tuple[Result, ...]]:
        """Sent in order, as many under way at once as there are tickets."""
        tasks = []
        with self._counted():
            try:
                async with asyncio.TaskGroup() as group:
                    for ops in groups:
                        ticket = await self._free.get()
                        task = group.create_task(self._write(ticket, ops))
                        # Not in the task itself: one that is cancelled before its first step, for
                        # another one failed, would never give the ticket back.
                        task.add_done_callback(partial(self._give_back, ticket))
                        tasks.append(task)
            except ExceptionGroup as failures:
                raise failures.exceptions[0] from None
        return [task.result() for task in tasks]

    async def all_done(self) -> None:
        """Wait for the writes that are under way."""
        await self._idle.wait()

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._under_way += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()

    def _give_back(self, ticket: _Ticket, _: object) -> None:
        self._free.put_nowait(ticket)

    async def _write(self, ticket: _Ticket, ops: Sequence[Op]) -> tuple[Result, ...]:
        number = b"%d" % next(self._numbers)
        while True:
            try:
                used, *results = await self._nodes.send(
                    [SetData(ticket.path, number, ticket.version), *ops]
                )
            except AnswerLost:
                continue
            if used.stat is not None:
                ticket.version = used.stat.version
                return tuple(results)
            if used.outcome is Outcome.ROLLED_BACK:
                return tuple(results)  # the ticket was good, another operation was not
            done_in = await self._done_in(ticket, number)
            if done_in is not None:
                return tuple(await _ReadBack(self._nodes, done_in, self._session).results(ops))

    async def _done_in(self, ticket: _Ticket, number: bytes) -> int | None:
        """The transaction that did this write before, or None when it was not done yet."""
        (node,) = await self._nodes.get_many([ticket.path])
        if node is None:
            raise StoreUnavailable("the ZooKeeper session has lost its nodes")
        ticket.version = node.stat.version
        return node.stat.mzxid if node.data == number else None


class _ReadBack:
    """The result of a multi that is known to have been done in a certain transaction."""

    def __init__(self, nodes: ServerNodes, zxid: int, session: int) -> None:
        self._nodes = nodes
        self._zxid = zxid
        self._session = session

    async def results(self, ops: Sequence[Op]) -> list[Result]:
        named = [op.path for op in ops if not _is_sequential(op)]
        nodes = dict(zip(named, await self._nodes.get_many(named), strict=True))
        prefixes = Counter(op.path for op in ops if _is_sequential(op))
        made = {prefix: await self._made(prefix, n) for prefix, n in prefixes.items()}
        sets_after = Counter(op.path for op in ops if isinstance(op, SetData))
        results = []
        for op in ops:
            match op:
                case Create():
                    path, node = made[op.path].popleft() if op.sequential else _at(nodes, op.path)
                    results.append(Result(Outcome.OK, path, self._created(node, op)))
                case SetData():
                    sets_after[op.path] -= 1
                    stat = self._changed(nodes[op.path], op, sets_after[op.path])
                    results.append(Result(Outcome.OK, op.path, stat))
                case Delete():
                    results.append(Result(Outcome.OK, op.path))
                case Check():
                    results.append(Result(Outcome.OK))
                case _:
                    assert_never(op)
        return results

    async def _made(self, prefix: str, made_count: int) -> deque[tuple[str, Node | None]]:
        """The sequential nodes of this prefix that the transaction made, in order."""
        above, start = split(prefix)
        names = [
            name
            for name in await self._nodes.children(above) or ()
            if name[:-10] == start and name[-10:].isdigit()
        ]
        paths = [f"{above.rstrip('/')}/{name}" for name in names]
        found = zip(paths, await self._nodes.get_many(paths), strict=True)
        made = deque(pair for pair in found if pair[1] and pair[1].stat.czxid == self._zxid)
        if len(made) != made_count:
            raise StoreUnavailable(f"{prefix}… was created, but removed before its name was read")
        return made

    def _created(self, node: Node | None, op: Create) -> Stat:
        zxid = self._zxid
        # Where the node is gone again, its time of birth is gone too; all else is known.
        ctime_ms = node.stat.ctime_ms if node and node.stat.czxid == zxid else 0
        return Stat(0, zxid, zxid, ctime_ms, self._session if op.ephemeral else 0)

    def _changed(self, node: Node | None, op: SetData, sets_after: int) -> Stat | None:
        if node is None or node.stat.czxid > self._zxid:
            return None
        if op.version != ANY_VERSION:
            return node.stat._replace(version=op.version + 1, mzxid=self._zxid)
        if node.stat.mzxid != self._zxid:
            return None
        return node.stat._replace(version=node.stat.version - sets_after)


def _is_sequential(op: Op) -> bool:
    return isinstance(op, Create) and op.sequential


def _at(nodes: dict[str, Node | None], path: str) -> tuple[str, Node | None]:
    return path, nodes[path]
