"""Requests about delegation tokens: to two brokers on one store, with a clock moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from klamm.broker.access.access import Access
from klamm.broker.access.audit import Audit
from klamm.broker.access.tokens import Tokens
from klamm.broker.api import (
    create_delegation_token,
    describe_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
)
from klamm.model.settings import BrokerSettings
from klamm.protocol.messages import create_delegation_token as creating
from klamm.protocol.messages import describe_delegation_token as describing
from klamm.protocol.messages import expire_delegation_token as expiring
from klamm.protocol.messages import renew_delegation_token as renewing
from klamm.security.authorization.acls import (
    Acl,
    Binding,
    Operation,
    Pattern,
    Permission,
    ResourceType,
)
from klamm.security.authorization.authorizer import Authorizer
from klamm.security.authorization.snapshot import snapshot_of
from klamm.security.credentials.tokens import token_hmac
from klamm.security.listeners.config import ListenerConfig, listener_config
from klamm.security.secret import Secret
from klamm.store import layout
from klamm.store.embedded import EmbeddedStore
from klamm.store.port import SetData
from unit.broker.access.peers import context

DAY_MS = 86_400_000
SECRET = {"delegation.token.secret.key": "shh"}
LISTENERS = listener_config(
    {
        "listeners": "SASL_PLAINTEXT://:1,PLAINTEXT://:2,SSL://:3",
        "inter.broker.listener.name": "PLAINTEXT",
    }
)


class Cluster:
    """Two brokers, as far as tokens go."""

    def __init__(self, sessions: list[Any], given: dict[str, str], access: Access) -> None:
        assert isinstance(LISTENERS, ListenerConfig)
        self.now_ms = 1_000_000
        self.session = sessions[0]
        clock: Any = SimpleNamespace(now_ms=lambda: self.now_ms, elapsed_ms=lambda: self.now_ms)
        settings = BrokerSettings.parse(given)
        self.brokers: list[Any] = [
            SimpleNamespace(
                access=access,
                settings=settings,
                tokens=Tokens(SimpleNamespace(session=session), clock, settings),
                seat=SimpleNamespace(listeners=LISTENERS),
            )
            for session in sessions
        ]

    async def ask(self, module: Any, request: Any, who: str = "alice", **how: Any) -> Any:
        broker = self.brokers[how.pop("broker", 0)]
        by_token, listener = how.pop("by_token", False), how.pop("listener", "SASL_PLAINTEXT")
        asked = context(principal=f"User:{who}")
        asked.peer.listener, asked.peer.by_token = listener, by_token
        return await module.handle(broker, asked, request)

    async def create(self, *renewers: str, owner: str | None = None, **how: Any) -> Any:
        lifetime = how.pop("lifetime", -1)
        named = [creating.CreatableRenewers("User", renewer) for renewer in renewers]
        request = creating.Request("User" if owner else None, owner, named, lifetime)
        return await self.ask(create_delegation_token, request, **how)

    async def renew(self, hmac: bytes, period: int = -1, **how: Any) -> Any:
        return await self.ask(renew_delegation_token, renewing.Request(hmac, period), **how)

    async def expire(self, hmac: bytes, period: int = -1, **how: Any) -> Any:
        return await self.ask(expire_delegation_token, expiring.Request(hmac, period), **how)

    async def seen(self, *owners: str, **how: Any) -> list[str]:
        named = [describing.DescribeDelegationTokenOwner("User", owner) for owner in owners]
        request = describing.Request(named or None)
        answer = await self.ask(describe_delegation_token, request, **how)
        assert answer.error_code == 0
        return [token.token_id for token in answer.tokens]


def lists(*rights: tuple[str, ResourceType, str, Operation]) -> Access:
    authorizer = Authorizer(
        snapshot=snapshot_of(
            Binding(Pattern(kind, name), Acl(who, "*", operation, Permission.ALLOW))
            for who, kind, name, operation in rights
        )
    )
    return Access(Audit(lambda: 0), lists=authorizer)


@asynccontextmanager
async def cluster(given: dict[str, str], access: Access) -> AsyncIterator[Cluster]:
    store = EmbeddedStore.open(None)
    try:
        yield Cluster([await store.connect(), await store.connect()], given, access)
    finally:
        await store.close()


def on_a_cluster(
    test: Callable[[Cluster], Awaitable[None]],
    given: dict[str, str] | None = None,
    access: Access | None = None,
) -> None:
    async def run() -> None:
        settings = SECRET if given is None else given
        async with cluster(settings, access or lists()) as made:
            await test(made)

    asyncio.run(run())


def test_a_token_is_kafkas() -> None:
    async def test(made: Cluster) -> None:
        told = await made.create("bob")
        assert told.error_code == 0
        assert len(told.token_id) == 22
        assert told.hmac == token_hmac(Secret("shh"), told.token_id)
        assert (told.principal_type, told.principal_name) == ("User", "alice")
        assert told.issue_timestamp_ms == made.now_ms
        assert told.expiry_timestamp_ms == made.now_ms + DAY_MS
        assert told.max_timestamp_ms == made.now_ms + 7 * DAY_MS
        node = await made.session.get(f"/delegation_token/tokens/{told.token_id}")
        assert node.data.startswith(
            b'{"version":3,"owner":"User%3Aalice","tokenRequester":"User%3A'
        )
        (change,) = await made.session.children("/delegation_token/token_changes")
        node = await made.session.get(f"/delegation_token/token_changes/{change}")
        assert node.data == told.token_id.encode()

    on_a_cluster(test)


def test_whatever_one_broker_does_the_other_sees_at_once() -> None:
    async def test(made: Cluster) -> None:
        told = await made.create(lifetime=3 * DAY_MS)
        assert await made.seen(broker=1) == [told.token_id]
        made.now_ms += DAY_MS // 2
        renewed = await made.renew(told.hmac, broker=1)
        assert renewed.expiry_timestamp_ms == made.now_ms + DAY_MS
        renewed = await made.renew(told.hmac, 30 * DAY_MS, broker=0)
        assert renewed.expiry_timestamp_ms == told.max_timestamp_ms, "never beyond its life"
        ended = await made.expire(told.hmac, broker=1)
        assert (ended.error_code, ended.expiry_timestamp_ms) == (0, made.now_ms)
        assert await made.seen(broker=0) == []
        assert (await made.renew(told.hmac)).error_code == 62
        assert await made.session.children("/delegation_token/tokens") == ()

    on_a_cluster(test)


def test_only_owners_and_renewers_renew_and_end_a_token() -> None:
    async def test(made: Cluster) -> None:
        told = await made.create("bob")
        answer = await made.renew(told.hmac, who="eve")
        assert (answer.error_code, answer.expiry_timestamp_ms) == (63, -1)
        assert (await made.expire(told.hmac, who="eve")).error_code == 63
        assert (await made.renew(told.hmac, 1000, who="bob")).error_code == 0
        assert (await made.expire(told.hmac, 500, who="bob")).error_code == 0
        made.now_ms += 501
        assert (await made.renew(told.hmac)).error_code == 66
        assert (await made.expire(told.hmac)).error_code == 0, "an expired one can be removed"

    on_a_cluster(test)


@pytest.mark.parametrize(
    "how",
    [
        {"listener": "PLAINTEXT"},
        {"listener": "SSL", "who": "ANONYMOUS"},
        {"by_token": True},
    ],
)
def test_a_caller_that_nobody_knows_or_by_a_token_has_nothing_to_do_with_tokens(how: Any) -> None:
    async def test(made: Cluster) -> None:
        told = await made.create(**how)
        assert (told.error_code, told.max_timestamp_ms, told.hmac) == (64, -1, b"")
        assert (await made.renew(b"", **how)).error_code == 64
        assert (await made.expire(b"", **how)).error_code == 64
        request = describing.Request(None)
        answer = await made.ask(describe_delegation_token, request, **how)
        assert answer.error_code == 64

    on_a_cluster(test)


def test_without_a_secret_there_are_none_and_no_nodes() -> None:
    async def test(made: Cluster) -> None:
        assert (await made.create()).error_code == 61
        assert (await made.renew(b"x")).error_code == 61
        assert (await made.expire(b"x")).error_code == 61
        answer = await made.ask(describe_delegation_token, describing.Request(None))
        assert answer.error_code == 61
        assert await made.session.get("/delegation_token") is None

    on_a_cluster(test, given={})


def test_the_older_name_of_the_secret_counts_where_the_newer_is_missing() -> None:
    async def test(made: Cluster) -> None:
        told = await made.create()
        assert told.hmac == token_hmac(Secret("old"), told.token_id)

    on_a_cluster(test, given={"delegation.token.master.key": "old"})


def test_a_token_for_somebody_else_takes_a_right() -> None:
    async def test(made: Cluster) -> None:
        told = await made.create(owner="bob")
        assert told.error_code == 65
        assert (told.principal_name, told.token_requester_principal_name) == ("bob", "alice")
        told = await made.create(owner="carol")
        assert told.error_code == 0
        assert (told.principal_name, told.token_requester_principal_name) == ("carol", "alice")

    right = ("User:alice", ResourceType.USER, "User:carol", Operation.CREATE_TOKENS)
    on_a_cluster(test, access=lists(right))


@pytest.mark.parametrize(
    ("renewers", "code"),
    [
        ([("Group", "g")], 67),
        ([("User", "")], 67),
        ([("User", "x" * 2000)], 67),
        ([("User", f"u{n}") for n in range(101)], 42),
    ],
)
def test_renewers_are_users(renewers: list[tuple[str, str]], code: int) -> None:
    async def test(made: Cluster) -> None:
        named = [creating.CreatableRenewers(*renewer) for renewer in renewers]
        request = creating.Request(None, None, named, -1)
        assert (await made.ask(create_delegation_token, request)).error_code == code

    on_a_cluster(test)


def test_who_may_see_a_token() -> None:
    async def test(made: Cluster) -> None:
        of_alice = (await made.create("bob")).token_id
        of_carol = (await made.create(who="carol")).token_id
        assert await made.seen(who="alice") == [of_alice]
        assert await made.seen(who="bob") == [of_alice]
        assert await made.seen(who="eve") == []
        assert await made.seen(who="auditor") == [of_carol]
        assert await made.seen("bob", who="alice") == [of_alice], "a filter means renewers too"
        assert await made.seen("carol", who="alice") == []
        none = await made.ask(describe_delegation_token, describing.Request([]), who="alice")
        assert none.tokens == []

    right = ("User:auditor", ResourceType.USER, "User:carol", Operation.DESCRIBE_TOKENS)
    on_a_cluster(test, access=lists(right))


def test_a_right_to_one_token_shows_that_one() -> None:
    async def test(made: Cluster) -> None:
        told = await made.create()
        await made.create()
        assert await made.seen(who="auditor") == []
        pattern = Pattern(ResourceType.DELEGATION_TOKEN, told.token_id)
        entry = Acl("User:auditor", "*", Operation.DESCRIBE, Permission.ALLOW)
        assert made.brokers[0].access.lists is not None
        made.brokers[0].access.lists.replace(snapshot_of([Binding(pattern, entry)]))
        assert await made.seen(who="auditor") == [told.token_id]

    on_a_cluster(test)


def test_expired_tokens_are_removed() -> None:
    async def test(made: Cluster) -> None:
        short, long = await made.create(lifetime=1000), await made.create()
        made.now_ms += 1001
        await made.brokers[1].tokens.remove_expired()
        assert await made.session.children("/delegation_token/tokens") == (long.token_id,)
        assert await made.seen() == [long.token_id]
        assert (await made.renew(short.hmac)).error_code == 62

    on_a_cluster(test)


def test_the_controller_looks_for_expired_tokens() -> None:
    async def test(made: Cluster) -> None:
        told = await made.create(lifetime=1000)
        made.now_ms += 1001
        gone, leads = asyncio.Event(), [False]
        made.session.watch_node(layout.token_path(told.token_id), gone.set)
        await made.session.get(layout.token_path(told.token_id))
        looking = asyncio.create_task(made.brokers[0].tokens.run(lambda: leads[0]))
        await asyncio.sleep(0.05)
        assert not gone.is_set(), "only the controller does"
        leads[0] = True
        async with asyncio.timeout(5):
            await gone.wait()
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)

    given = {**SECRET, "delegation.token.expiry.check.interval.ms": "5"}
    on_a_cluster(test, given=given)


def test_a_token_that_a_hand_has_changed_is_decided_upon_anew() -> None:
    async def test(made: Cluster) -> None:
        told = await made.create("bob")
        assert await made.seen() == [told.token_id]
        path = layout.token_path(told.token_id)
        node = await made.session.get(path)
        changed = node.data.replace(b"User%3Abob", b"User%3Azoe")
        await made.session.multi([SetData(path, changed)])
        assert (await made.renew(told.hmac, who="bob")).error_code == 63
        assert (await made.renew(told.hmac, who="zoe")).error_code == 0

    on_a_cluster(test)


def test_nothing_secret_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def test(made: Cluster) -> None:
        told = await made.create()
        await made.expire(told.hmac)
        text = caplog.text + repr([vars(record) for record in caplog.records])
        assert told.token_id in text
        assert "shh" not in text
        assert told.hmac.hex() not in text
        assert repr(told.hmac) not in text

    with caplog.at_level("INFO"):
        on_a_cluster(test)
