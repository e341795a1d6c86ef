"""A secured cluster inside a program: both kinds, restarts, and what can be asked wrongly."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from klamm import Cluster, Security
from klamm.client.aio import delegation_tokens, users
from klamm.client.aio.cluster import Client
from klamm.client.errors import Distrusted
from klamm.client.settings import of_properties
from klamm.model.errors import UsageError
from klamm.model.scram import ScramMechanism
from klamm.security.principals import Principal

ROOT = Path(__file__).parents[3]
pytest_plugins = ["pytester"]


def client_of(properties: dict[str, str]) -> Client:
    return Client.of(properties.pop("bootstrap.servers"), of_properties(properties))


def test_brokers_come_and_go_and_the_cluster_starts_twice() -> None:
    cluster = Cluster(3, security=Security(users=["alice"]))
    for _ in range(2):
        with cluster:
            cluster.create_topic("orders", 1, 3)
            cluster.allow("alice", "produce", "topic:orders")
            cluster.allow("alice", "consume", "topic:orders", "group:g")
            cluster.kill_broker(cluster.wait_for_leader("orders"))
            producer = Producer({**cluster.client_config("alice"), "log_level": 0})
            producer.produce("orders", b"a coat")
            assert producer.flush(30) == 0
            for gone in {0, 1, 2} - set(cluster.running):
                cluster.start_broker(gone)
            cluster.wait_for_isr("orders", size=3)
            consumer = Consumer(
                {**cluster.client_config("alice"), "group.id": "g", "log_level": 0}
                | {"auto.offset.reset": "earliest"}
            )
            consumer.subscribe(["orders"])
            message = consumer.poll(30)
            assert message is not None
            assert message.value() == b"a coat"
            consumer.close()


def test_users_and_tokens_by_our_own_client() -> None:
    with Cluster(1, security=True) as cluster:

        async def main() -> None:
            async with client_of(cluster.client_config("admin", "java")) as admin:
                await users.set_password(admin, "carol", "a=b,c")
                named = {one.user for one in await users.describe(admin)}
                assert named == {"admin", "carol", "klamm-broker"}
                made = await delegation_tokens.create(admin, renewers=[Principal("User", "carol")])
                assert [one.id for one in await delegation_tokens.describe(admin)] == [made.id]
                assert str(made.hmac) not in repr(made)
                assert await delegation_tokens.renew(admin, made.hmac) <= made.ends_ms
                await delegation_tokens.expire(admin, made.hmac)
                assert await delegation_tokens.describe(admin) == []
                await users.remove(admin, "carol", ScramMechanism)
            stranger = cluster.client_config("admin", "java", password="guessed")
            async with client_of(stranger) as client:
                with pytest.raises(Distrusted, match="refused to let us in"):
                    await client.reach()

        asyncio.run(main())


async def test_the_same_to_await() -> None:
    wishes = Security(users=["alice"], mechanisms=("SCRAM-SHA-256", "OAUTHBEARER"))
    async with Cluster(1, security=wishes) as cluster:
        await cluster.create_topic("orders", 1, 1)
        await cluster.allow("alice", "describe", "topic:orders")
        given = cluster.client_config("alice", "java", mechanism="OAUTHBEARER")
        async with client_of(given) as client:
            assert list((await client.refresh()).topics) == ["orders"]
        assert cluster.token("alice").count(".") == 2
        assert (cluster.clients / "alice.json").exists()
        for wrong, says in (
            ({"user": "nobody"}, "there is no user nobody in this cluster, only admin, alice"),
            ({"client": "perl"}, "no settings for 'perl'"),
            ({"listener": "MTLS"}, "has no listener MTLS, only SASL_SSL"),
            ({"mechanism": "PLAIN"}, "has no mechanism PLAIN"),
            ({"wrong": "mood"}, "wrong= is one of"),
        ):
            with pytest.raises(UsageError, match=says):
                cluster.client_config(**wrong)


def test_an_open_cluster_has_no_keys() -> None:
    with Cluster(1) as cluster, pytest.raises(UsageError, match="open to everybody"):
        cluster.client_config("admin")


def test_the_page_about_pytest_holds(pytester: pytest.Pytester) -> None:
    page = (ROOT / "docs" / "how-to" / "test-with-pytest.md").read_text()
    section = page[page.index("## A secured cluster") :]
    code = re.findall(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert len(code) == 1
    pytester.makepyfile(code[0])
    result = pytester.runpytest_subprocess("-W", "error", "-p", "no:asyncio")
    result.assert_outcomes(passed=2)


def test_a_served_store_keeps_the_secrets_to_itself() -> None:
    with Cluster(1, security=True, settings={"klamm.store.serve.port": 0}) as cluster:
        stranger = KazooClient(hosts=cluster._app.zookeeper_address)
        stranger.start()
        try:
            for path in ("/config/users", "/config/users/admin", "/klamm/secret"):
                with pytest.raises(NoAuthError):
                    stranger.get(path)
        finally:
            stranger.stop()
            stranger.close()
