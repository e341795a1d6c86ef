"""What goes beyond Kafka: users who are removed are cut, and a token's HMAC is its owner's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from klamm import Cluster, Security
from klamm.client.aio import users
from klamm.client.aio.cluster import Client
from klamm.client.errors import ConnectionLost
from klamm.client.settings import of_properties
from klamm.model.scram import ScramMechanism
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import create_delegation_token, describe_delegation_token, metadata

SETTINGS = {
    "klamm.delegation.token.hide.hmac": "true",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    wishes = Security(users=["alice", "bob"])
    with Cluster(1, security=wishes, settings=SETTINGS) as running:
        yield running


def client(cluster: Cluster, user: str) -> Client:
    given = dict(cluster.client_config(user, "java"))
    return Client.of(given.pop("bootstrap.servers"), of_properties(given))


async def test_whoever_is_removed_is_cut_at_the_next_request(cluster: Cluster) -> None:
    async with client(cluster, "bob") as theirs, client(cluster, "admin") as ours:
        connection = await theirs.to_any(theirs.deadline())
        asked = metadata.Request(topics=[])
        assert (await connection.request(ApiKey.METADATA, 9, asked)).brokers
        await users.remove(ours, "bob", [ScramMechanism.SHA_512])

        async def is_cut() -> bool:
            try:
                await connection.request(ApiKey.METADATA, 9, asked)
            except ConnectionLost:
                return True
            return False

        async with asyncio.timeout(20):
            while not await is_cut():
                pass
        # Whoever is still somebody stays.
        kept = await ours.to_any(ours.deadline())
        assert (await kept.request(ApiKey.METADATA, 9, asked)).brokers


async def test_a_tokens_password_is_told_to_its_owner_alone(cluster: Cluster) -> None:
    async def ask(user: str, key: ApiKey, request: object) -> object:
        async with client(cluster, user) as one:
            connection = await one.to_any(one.deadline())
            return await connection.request(key, 2, request)

    made = await ask(
        "alice",
        ApiKey.CREATE_DELEGATION_TOKEN,
        create_delegation_token.Request(None, None, [], -1),
    )
    assert isinstance(made, create_delegation_token.Response)
    everything = describe_delegation_token.Request(None)
    for user, shown in (("alice", bytes(made.hmac)), ("admin", b"")):
        told = await ask(user, ApiKey.DESCRIBE_DELEGATION_TOKEN, everything)
        assert isinstance(told, describe_delegation_token.Response)
        assert [bytes(token.hmac) for token in told.tokens] == [shown]
