"""Users of a locked cluster: what each may do, how much of it, and under which name it is told."""

from __future__ import annotations

import asyncio
import base64
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from klamm import Cluster
from klamm.client.aio.connection import Connection
from klamm.client.security.settings import Security, security_of
from klamm.model.names import ZERO_ID
from klamm.protocol.apis import ApiKey
from klamm.protocol.batch import Record, encode_batch
from klamm.protocol.messages import (
    alter_client_quotas,
    create_acls,
    create_delegation_token,
    create_topics,
    describe_delegation_token,
    expire_delegation_token,
    metadata,
)
from klamm.protocol.produce import PartitionRecords, ProduceRequest, TopicRecords

LISTENERS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="root" password="r" user_root="r" user_alice="a" user_bob="b";'
    ),
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:root",
    "delegation.token.secret.key": "shh",
}
PASSWORDS = {"root": "r", "alice": "a", "bob": "b"}


class Users:
    """Asks a cluster of one broker as its users."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def ask(self, user: str, *requests: tuple[int, int, Any], name: str = "app", **how: Any) -> Any:
        endpoint = self.cluster._app.brokers[0].endpoint
        security = how.get("security") or plain(user)

        async def exchange() -> list[Any]:
            connection = await Connection.open(
                endpoint.host, endpoint.port, name, security=security
            )
            try:
                return [
                    await connection.produce(version, request)
                    if key == ApiKey.PRODUCE
                    else await connection.request(key, version, request)
                    for key, version, request in requests
                ]
            finally:
                await connection.close()

        answers = asyncio.run(exchange())
        return answers[0] if len(answers) == 1 else answers

    def allow(self, user: str, kind: int, name: str, operation: int, pattern: int = 3) -> None:
        entry = create_acls.AclCreation(kind, name, pattern, f"User:{user}", "*", operation, 3)
        answer = self.ask("root", (30, 3, create_acls.Request([entry])))
        assert [result.error_code for result in answer.results] == [0]

    def create(self, user: str, topic: str, **how: Any) -> int:
        wanted = create_topics.CreatableTopic(topic, 1, 1)
        answer = self.ask(user, (19, 7, create_topics.Request([wanted], 10_000)), **how)
        return int(answer.topics[0].error_code)


def plain(user: str, password: str | None = None) -> Security:
    return security_of(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": PASSWORDS[user] if password is None else password,
        }.get
    )


@pytest.fixture(scope="module")
def users() -> Iterator[Users]:
    with Cluster(1, settings=LISTENERS) as cluster:
        yield Users(cluster)


def test_each_user_has_rights_of_its_own(users: Users) -> None:
    assert users.create("alice", "mine") == 29
    users.allow("alice", 2, "mine", 5)
    assert users.create("bob", "mine") == 29
    assert users.create("alice", "mine", name="maker") == 0
    known = metadata.Request([metadata.MetadataRequestTopic(ZERO_ID, "mine")])
    assert users.ask("bob", (3, 12, known)).topics[0].error_code == 29
    everything = metadata.Request(None)
    assert users.ask("bob", (3, 12, everything)).topics == []
    assert [t.name for t in users.ask("root", (3, 12, everything)).topics if not t.is_internal] == [
        "mine"
    ]
    story = list(users.cluster._app.brokers[0].parts.controller.story("mine"))
    assert {entry.get("by") for entry in story} == {"User:alice (client maker at 127.0.0.1)"}


def limit(users: Users, rate: float | None, **entity: str) -> None:
    names = [alter_client_quotas.EntityData(k.replace("_", "-"), v) for k, v in entity.items()]
    op = alter_client_quotas.OpData("producer_byte_rate", rate or 0.0, rate is None)
    request = alter_client_quotas.Request([alter_client_quotas.EntryData(names, [op])])
    (answer,) = users.ask("root", (49, 1, request)).entries
    assert answer.error_code == 0
    users.cluster._run(users.cluster._app.brokers[0].parts.dynamic_config.caught_up())


def test_quotas_are_of_users_and_of_their_clients(users: Users) -> None:
    topic = f"t-{uuid.uuid4().hex}"
    assert users.create("root", topic) == 0
    for user in ("alice", "bob"):
        users.allow(user, 2, topic, 4)
    batch = memoryview(encode_batch([Record(0, 1, None, b"x" * 20_000)]))
    request = ProduceRequest(None, 1, 1000, [TopicRecords(topic, [PartitionRecords(0, batch)])])

    def throttled(user: str, name: str = "app") -> bool:
        answer = users.ask(user, (0, 9, request), name=name)
        assert answer.topics[0].partitions[0].error_code == 0
        return bool(answer.throttle_time_ms)

    limit(users, 100.0, user="alice")
    assert [throttled("alice"), throttled("bob")] == [True, False]
    assert throttled("alice", "another"), "the quota is of all clients of a user"
    limit(users, 10_000_000.0, user="alice", client_id="fast")
    assert not throttled("alice", "fast"), "user and client beat the user"
    limit(users, 100.0, client_id="app")
    assert throttled("bob"), "a client id counts where no user does"
    limit(users, 10_000_000.0, user="bob")
    assert not throttled("bob"), "and the user beats it"
    for entity in ({"user": "alice"}, {"user": "alice", "client_id": "fast"}, {"user": "bob"}):
        limit(users, None, **entity)
    limit(users, None, client_id="app")


def test_a_token_acts_for_its_owner_and_makes_no_tokens(users: Users) -> None:
    asked = create_delegation_token.Request(None, None, [], -1)
    made = users.ask("alice", (38, 3, asked))
    assert made.error_code == 0
    assert made.principal_name == "alice"
    hmac = bytes(made.hmac)
    by_token = token(made.token_id, hmac)
    users.allow("alice", 2, "by-token", 5)
    created, described, again = users.ask(
        "",
        (19, 7, create_topics.Request([create_topics.CreatableTopic("by-token", 1, 1)], 10_000)),
        (41, 3, describe_delegation_token.Request(None)),
        (38, 3, asked),
        security=by_token,
    )
    assert created.topics[0].error_code == 0
    assert (described.error_code, again.error_code) == (64, 64)
    for_bob = create_delegation_token.Request("User", "bob", [], -1)
    assert users.ask("alice", (38, 3, for_bob)).error_code == 65
    users.allow("alice", 7, "User:bob", 13)
    assert users.ask("alice", (38, 3, for_bob)).error_code == 0
    assert users.ask("bob", (40, 2, expire_delegation_token.Request(hmac, -1))).error_code == 63
    assert users.ask("alice", (40, 2, expire_delegation_token.Request(hmac, -1))).error_code == 0


def token(id: str, hmac: bytes) -> Security:
    return security_of(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required "
                f'username="{id}" password="{base64.b64encode(hmac).decode()}" tokenauth="true";'
            ),
        }.get
    )
