"""Lists in the store: read, followed, changed; by two brokers, and by somebody else's hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from klamm.broker.access.lists import Edit, Lists
from klamm.security.authorization.acls import (
    UNREADABLE,
    Acl,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from klamm.security.authorization.authorizer import Authorizer
from klamm.store import layout
from klamm.store.embedded import EmbeddedStore
from klamm.store.port import Create, Session, SetData

TOPIC = Pattern(ResourceType.TOPIC, "orders")
PREFIX = Pattern(ResourceType.GROUP, "team-", PatternType.PREFIXED)
READ = Acl("User:alice", "*", Operation.READ, Permission.ALLOW)
WRITE = Acl("User:bob", "10.0.0.1", Operation.WRITE, Permission.DENY)


class _Clock:
    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> int:
        return self.ms

    def elapsed_ms(self) -> int:
        return self.ms


@dataclass
class _Host:
    session: Session


class _Brokers:
    """Two brokers on one store."""

    def __init__(self, sessions: list[Session]) -> None:
        self.session = sessions[0]
        self.clock = _Clock()
        self.changes = 0
        self.heard = asyncio.Event()
        self.one, self.other = (
            Lists(_Host(session), self.clock, Authorizer(), self._changed) for session in sessions
        )

    def _changed(self) -> None:
        self.changes += 1
        self.heard.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not holds():
                self.heard.clear()
                await self.heard.wait()


@asynccontextmanager
async def brokers() -> AsyncIterator[_Brokers]:
    store = EmbeddedStore.open(None)
    try:
        made = _Brokers([await store.connect(), await store.connect()])
        yield made
        await made.one.stop()
        await made.other.stop()
    finally:
        await store.close()


Test = Callable[[_Brokers], Awaitable[None]]


def on_two_brokers(test: Test) -> Any:
    def run() -> None:
        async def inside() -> None:
            async with brokers() as made:
                await test(made)

        asyncio.run(inside())

    return run


@on_two_brokers
async def test_a_start_makes_kafkas_nodes(made: _Brokers) -> None:
    await made.one.load()
    for root in layout.ACL_ROOTS:
        assert await made.session.get(root) is not None, root
    assert len(layout.ACL_ROOTS) == 14


@on_two_brokers
async def test_what_was_written_is_kafkas_and_read_at_the_next_start(made: _Brokers) -> None:
    await made.one.load()
    edits = {TOPIC: Edit(frozenset({READ, WRITE})), PREFIX: Edit(frozenset({READ}))}
    assert await made.one.write(edits) == {}
    node = await made.session.get("/kafka-acl/Topic/orders")
    assert node is not None
    assert node.data == (
        b'{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow","operation":'
        b'"Read","host":"*"},{"principal":"User:bob","permissionType":"Deny","operation":"Write",'
        b'"host":"10.0.0.1"}]}'
    )
    assert await made.session.get("/kafka-acl-extended/prefixed/Group/team-") is not None
    (literal,) = await made.session.children("/kafka-acl-changes") or ()
    node = await made.session.get(f"/kafka-acl-changes/{literal}")
    assert node is not None
    assert node.data == b"TOPIC:orders"
    await made.other.load()
    assert made.other.snapshot.acls(TOPIC) == {READ, WRITE}
    assert made.other.snapshot.acls(PREFIX) == {READ}


@on_two_brokers
async def test_the_writer_heeds_a_change_at_once_and_others_hear_of_it(made: _Brokers) -> None:
    await made.one.load()
    await made.other.load()
    made.other.follow()
    await made.one.write({TOPIC: Edit(frozenset({READ}))})
    assert made.one.snapshot.acls(TOPIC) == {READ}
    await made.until(lambda: made.other.snapshot.acls(TOPIC) == {READ})
    await made.one.write({TOPIC: Edit(removed=frozenset({READ}))})
    await made.until(lambda: made.other.snapshot.acls(TOPIC) == frozenset())
    assert await made.session.get(layout.acl_path(TOPIC)) is None, "the last entry took the node"


@on_two_brokers
async def test_who_catches_up_has_seen_what_was_announced(made: _Brokers) -> None:
    await made.one.load()
    await made.other.load()
    await made.one.write({PREFIX: Edit(frozenset({READ})), TOPIC: Edit(frozenset({WRITE}))})
    assert made.other.snapshot.acls(PREFIX) == frozenset()
    await made.other.catch_up()
    assert made.other.snapshot.acls(PREFIX) == {READ}
    assert made.other.snapshot.acls(TOPIC) == {WRITE}


@on_two_brokers
async def test_two_writers_of_one_node_lose_nothing(made: _Brokers) -> None:
    await made.one.load()
    await made.other.load()
    mine = [Acl(f"User:a{n}", "*", Operation.READ, Permission.ALLOW) for n in range(20)]
    await asyncio.gather(
        *(made.one.write({TOPIC: Edit(frozenset({acl}))}) for acl in mine[:10]),
        *(made.other.write({TOPIC: Edit(frozenset({acl}))}) for acl in mine[10:]),
    )
    node = await made.session.get(layout.acl_path(TOPIC))
    assert node is not None
    assert layout.decode_acls(node.data) == frozenset(mine)


@on_two_brokers
async def test_what_changes_nothing_is_not_announced(made: _Brokers) -> None:
    await made.one.load()
    await made.one.write({TOPIC: Edit(frozenset({READ}))})
    await made.one.write({TOPIC: Edit(frozenset({READ}))})
    await made.one.write({PREFIX: Edit(removed=frozenset({READ}))})
    assert len(await made.session.children(layout.ACL_CHANGES) or ()) == 1
    assert await made.session.children(layout.EXTENDED_ACL_CHANGES) == ()


@on_two_brokers
async def test_a_node_that_cannot_be_read_locks_its_resource_until_it_is_mended(
    made: _Brokers,
) -> None:
    await made.one.load()
    path = layout.acl_path(TOPIC)
    await made.session.multi([Create(path, b"{")])
    await made.one.load()
    assert made.one.snapshot.acls(TOPIC) == UNREADABLE
    assert await made.one.write({TOPIC: Edit(frozenset({READ}), UNREADABLE)}) == {}
    assert made.one.snapshot.acls(TOPIC) == {READ}
    node = await made.session.get(path)
    assert node is not None
    assert layout.decode_acls(node.data) == {READ}


@on_two_brokers
async def test_a_hand_that_announces_is_heard_and_nonsense_is_skipped(made: _Brokers) -> None:
    await made.one.load()
    made.one.follow()
    await made.session.multi([Create(layout.acl_path(TOPIC), layout.encode_acls([READ]))])
    for data in (b"nonsense", b"TOPIC:orders"):
        change = Create(layout.ACL_CHANGE_PREFIX, data, sequential=True)
        await made.session.multi([Create(f"{layout.ACL_CHANGES}/foreign-{len(data)}"), change])
    await made.until(lambda: made.one.snapshot.acls(TOPIC) == {READ})
    await made.session.multi([SetData(layout.acl_path(TOPIC), layout.encode_acls([WRITE]))])
    change = Create(layout.ACL_CHANGE_PREFIX, b"Topic:orders", sequential=True)
    await made.session.multi([change])
    await made.until(lambda: made.one.snapshot.acls(TOPIC) == {WRITE})


@on_two_brokers
async def test_announcements_are_swept_away_after_a_quarter_of_an_hour(made: _Brokers) -> None:
    await made.one.load()
    await made.one.write({TOPIC: Edit(frozenset({READ}))})
    (old,) = await made.session.children(layout.ACL_CHANGES) or ()
    node = await made.session.get(f"{layout.ACL_CHANGES}/{old}")
    assert node is not None
    made.clock.ms = node.stat.ctime_ms + 15 * 60_000 + 1
    gone = asyncio.Event()
    made.session.watch_node(f"{layout.ACL_CHANGES}/{old}", gone.set)
    assert await made.session.get(f"{layout.ACL_CHANGES}/{old}") is not None
    await made.other.load()
    made.other.follow()
    async with asyncio.timeout(5):
        await gone.wait()
    assert await made.session.children(layout.ACL_CHANGES) == ()


@on_two_brokers
async def test_a_list_that_no_node_can_hold_is_refused(made: _Brokers) -> None:
    await made.one.load()
    many = frozenset(
        Acl(f"User:{n:0100}", "*", Operation.READ, Permission.ALLOW) for n in range(6_000)
    )
    refusals = await made.one.write({TOPIC: Edit(many), PREFIX: Edit(frozenset({READ}))})
    assert "too many ACLs" in refusals[TOPIC].why
    assert made.one.snapshot.acls(TOPIC) == frozenset()
    assert made.one.snapshot.acls(PREFIX) == {READ}, "one that fails does not spoil another"


@pytest.mark.parametrize("name", ["/kafka-acl/Unknown", "/kafka-acl/Unknown/x"])
def test_a_type_that_nobody_knows_is_left_alone(name: str) -> None:
    async def inside() -> None:
        async with brokers() as made:
            await made.one.load()
            await made.session.multi([Create(p) for p in layout.with_parents([name])[1:]])
            await made.one.load()
            assert list(made.one.snapshot.patterns()) == []

    asyncio.run(inside())
