"""Every API over the wire: refused without a right, in the way of the table, and served with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from interop.access_table import (
    ELSEWHERE,
    GROUP,
    NEW,
    REQUESTS,
    TOPIC,
    Site,
    background,
    cases,
    check,
    codes,
    doomed,
    name_of,
    produce,
)
from klamm import Cluster
from klamm.broker.access.lists import Edit
from klamm.client.aio.connection import Connection
from klamm.model.names import ZERO_ID, TopicPartition
from klamm.protocol import codec
from klamm.protocol.apis import APIS as SERVED
from klamm.protocol.apis import ApiKey
from klamm.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.messages import (
    delete_topics,
    describe_user_scram_credentials,
    metadata,
)
from klamm.protocol.private import PrivateKey
from klamm.security.authorization.acls import Acl, Operation, Pattern
from klamm.security.authorization.acls import Permission as Says
from klamm.security.authorization.apis import APIS
from klamm.security.authorization.needs import Need

ACLS = "kafka.security.authorizer.AclAuthorizer"
ME = "User:ANONYMOUS"


@dataclass
class Guarded(Site):
    """A cluster with lists that a test sets as it likes."""

    cluster: Cluster

    def set(self, rights: dict[Pattern, set[Operation]]) -> None:
        """Have exactly these rights, by the way that CreateAcls and DeleteAcls go."""
        lists = self.cluster._app.brokers[0].parts.lists
        assert lists is not None
        wanted = {
            pattern: frozenset(Acl(ME, "*", op, Says.ALLOW) for op in operations)
            for pattern, operations in rights.items()
        }
        edits = {
            pattern: Edit(wanted.get(pattern, frozenset()), lists.snapshot.acls(pattern))
            for pattern in {*lists.snapshot.patterns(), *wanted}
        }
        edits = {p: Edit(e.added, e.removed - e.added) for p, e in edits.items()}
        assert self.cluster._run(lists.write(edits)) == {}

    def ask(self, key: int, version: int, request: Any) -> Any:
        endpoint = self.cluster._app.brokers[0].endpoint

        async def exchange() -> Any:
            connection = await Connection.open(endpoint.host, endpoint.port, "me")
            try:
                if key == ApiKey.PRODUCE:
                    return await connection.produce(version, request)
                if key == ApiKey.FETCH:
                    return await connection.fetch(version, request)
                if key >= 1000:
                    return await connection.ask(key, request)
                return await connection.request(key, version, request)
            finally:
                await connection.close()

        return asyncio.run(exchange())


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    settings = {
        "authorizer.class.name": ACLS,
        "group.coordinator.rebalance.protocols": "classic,consumer",
    }
    with Cluster(1, settings=settings) as cluster:
        made = Guarded(cluster)
        made.allow_everything()
        cluster.create_topic(TOPIC, 1)
        made.furnish()
        yield made


@pytest.mark.parametrize(("key", "need", "version"), list(cases()))
def test_an_api_is_refused_without_its_right_and_served_with_exactly_it(
    guarded: Guarded, key: int, need: Need, version: int
) -> None:
    request = REQUESTS[key, need.case](guarded, version)
    rest = background(key, need, version)
    guarded.allow(*rest)
    check(guarded, need, guarded.ask(key, version, request), is_denied=True)
    for option in need.options:
        guarded.allow(*rest, (option, name_of(key, need, option, version)))
        request = REQUESTS[key, need.case](guarded, version)
        check(guarded, need, guarded.ask(key, version, request), is_denied=False)


def test_every_case_of_the_table_is_asked() -> None:
    table = {(api.key, need.case) for api in APIS.values() for need in api.needs}
    assert REQUESTS.keys() | ELSEWHERE.keys() == table


@pytest.mark.parametrize(
    ("key", "case", "version", "words"),
    [
        (10, "group", 3, "Group authorization failed."),
        (10, "transaction", 4, "Transactional Id authorization failed."),
        (29, "cluster", 3, "Cluster authorization failed."),
        (30, "cluster", 3, "Cluster authorization failed."),
        (31, "cluster", 3, "Cluster authorization failed."),
        (32, "broker", 4, "Cluster authorization failed."),
        (32, "topic", 4, "Topic authorization failed."),
        (45, "cluster", 0, "Cluster authorization failed."),
        (46, "cluster", 0, "Cluster authorization failed."),
        (49, "cluster", 1, "Cluster authorization failed."),
        (61, "topic", 0, "Topic authorization failed."),
    ],
)
def test_a_denial_has_words_where_kafka_has_some(
    guarded: Guarded, key: int, case: str, version: int, words: str
) -> None:
    guarded.allow()
    answer = guarded.ask(key, version, REQUESTS[key, case](guarded, version))
    assert f"error_message={words!r}" in repr(answer)


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None), (9, None)])
def test_a_denied_member_hears_of_no_protocol(
    guarded: Guarded, version: int, name: str | None
) -> None:
    guarded.allow()
    told = guarded.ask(11, version, REQUESTS[11, "group"](guarded, version))
    assert (told.error_code, told.protocol_name) == (30, name)


def test_settings_that_are_not_shown_are_an_empty_list(guarded: Guarded) -> None:
    guarded.allow((APIS[19].need("topic").options[1], NEW))
    (told,) = guarded.ask(19, 7, REQUESTS[19, "configs"](guarded, 7)).topics
    assert (told.error_code, told.topic_config_error_code, told.configs) == (0, 29, [])


def test_nobody_learns_of_users_by_asking_for_all(guarded: Guarded) -> None:
    guarded.allow()
    told = guarded.ask(50, 0, describe_user_scram_credentials.Request(None))
    assert (told.error_code, told.results) == (31, [])


@pytest.mark.parametrize(("epoch", "code"), [(-1, 6), (0, 75)])
def test_a_follower_that_is_no_replica_hears_what_it_can_understand(
    guarded: Guarded, epoch: int, code: int
) -> None:
    """Without an epoch in the request, none can be unknown."""
    guarded.allow((APIS[1].need("follower").options[0], ""))
    topics = [FetchTopic("", guarded.topic_id, [FetchPartition(0, epoch, 0)])]
    request = FetchRequest(max_wait_ms=0, topics=topics, replica_id=1)
    told = guarded.ask(1, 17, request).topics[0].partitions[0]
    assert told.error_code == code
    if epoch < 0:
        assert told.current_leader is not None
        assert told.current_leader.leader_id == 0


def test_a_topic_is_deleted_by_id_only_by_who_may_know_its_name(guarded: Guarded) -> None:
    need, delete = APIS[20].need("name", 6), APIS[20].need("topic", 6)
    request = delete_topics.Request([delete_topics.DeleteTopicState(None, guarded.topic_id)])
    guarded.allow()
    (told,) = guarded.ask(20, 6, request).responses
    assert (told.error_code, told.name) == (29, None)
    guarded.allow((need.options[0], TOPIC))
    (told,) = guarded.ask(20, 6, request).responses
    assert (told.error_code, told.name) == (29, TOPIC)
    unknown = delete_topics.Request([delete_topics.DeleteTopicState(None, ZERO_ID)])
    guarded.allow((delete.options[0], TOPIC))
    (told,) = guarded.ask(20, 6, unknown).responses
    assert told.error_code == 100


def test_metadata_by_id_names_no_topic_that_the_caller_may_not_describe(guarded: Guarded) -> None:
    guarded.allow()
    asked = metadata.MetadataRequestTopic(guarded.topic_id, None)
    (told,) = guarded.ask(3, 12, metadata.Request([asked])).topics
    assert (told.error_code, told.name, told.topic_id) == (29, None, guarded.topic_id)
    assert told.partitions == []


@pytest.mark.parametrize("key", [0, 1, 2, 3, 8, 20, 21])
def test_a_forbidden_topic_answers_the_same_whether_it_exists_or_not(
    guarded: Guarded, key: int
) -> None:
    guarded.allow(*background(key, APIS[key].need("topic", 6), 6))
    version = {0: 9, 1: 12, 2: 7, 3: 9, 8: 8, 20: 6, 21: 2}[key]
    request = doomed if key == 20 else REQUESTS[key, "topic"]
    real, missing = request(guarded, version), request(guarded, version)
    name = NEW if key == 20 else TOPIC
    if key == 20:
        real.topics[0].name = TOPIC
        name = TOPIC
        missing.topics[0].name = "no-such-topic"
    else:
        missing = _renamed(missing)
    there, nowhere = guarded.ask(key, version, real), guarded.ask(key, version, missing)
    assert repr(there) == repr(nowhere).replace("no-such-topic", name)
    assert 29 in codes(there, top=False)


def _renamed(request: Any) -> Any:
    (topic,) = request.topics
    if hasattr(topic, "_replace"):
        topics = [topic._replace(name="no-such-topic")]
        return (
            request._replace(topics=topics)
            if hasattr(request, "_replace")
            else _set(request, topics)
        )
    topic.name = "no-such-topic"
    return request


def _set(request: Any, topics: list[Any]) -> Any:
    request.topics = topics
    return request


def test_a_private_request_that_only_tells_shows_nothing_else(guarded: Guarded) -> None:
    describe = APIS[1001].need("topic").options[0]
    guarded.allow((describe, TOPIC))
    story = guarded.ask(PrivateKey.STORY, 0, {"topic": None})["entries"]
    assert {entry["topic"] for entry in story} == {TOPIC}
    guarded.allow((APIS[1003].need("cluster").options[0], ""))
    story = guarded.ask(PrivateKey.STORY, 0, {"topic": None})["entries"]
    assert {entry["topic"] for entry in story} >= {TOPIC, ""}


@pytest.mark.parametrize("key", [38, 39, 40, 41])
def test_tokens_are_no_matter_for_an_open_listener(guarded: Guarded, key: int) -> None:
    guarded.allow_everything()
    for version in range(SERVED[key].served.low, SERVED[key].served.high + 1):
        request = codec.message_class(key, "Request")()
        assert guarded.ask(key, version, request).error_code == 64


def test_librdkafka_writes_and_reads_with_as_little_as_kafka_asks(guarded: Guarded) -> None:
    write, read = APIS[0].need("topic").options[0], APIS[1].need("topic").options[0]
    join = APIS[11].need("group").options[0]
    bootstrap = {"bootstrap.servers": guarded.cluster.bootstrap_servers}
    told: list[Any] = []
    guarded.allow((write, TOPIC))
    producer = Producer({**bootstrap, "enable.idempotence": True})
    producer.produce(TOPIC, b"hello", on_delivery=lambda error, _: told.append(error))
    assert producer.flush(20) == 0
    assert told == [None]
    guarded.allow((read, TOPIC), (join, GROUP))
    settings = {**bootstrap, "group.id": GROUP, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    try:
        consumer.subscribe([TOPIC])
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
    finally:
        consumer.close()


def test_librdkafka_hears_of_a_denial(guarded: Guarded) -> None:
    guarded.allow()
    told: list[Any] = []
    producer = Producer({"bootstrap.servers": guarded.cluster.bootstrap_servers})
    producer.produce(TOPIC, b"hello", on_delivery=lambda error, _: told.append(error.code()))
    assert producer.flush(20) == 0
    assert told == [KafkaError.TOPIC_AUTHORIZATION_FAILED]


def test_a_right_that_goes_ends_a_fetch_that_waits(guarded: Guarded) -> None:
    """Whoever waits for records with a right does not get them without it."""
    read = APIS[1].need("topic").options[0]
    guarded.allow((read, TOPIC))
    endpoint = guarded.cluster._app.brokers[0].endpoint
    partition = guarded.cluster._app.brokers[0].parts.replicas.partition(TopicPartition(TOPIC, 0))
    assert partition is not None
    assert partition.log is not None
    end = partition.log.log_end_offset

    async def exchange() -> int:
        connection = await Connection.open(endpoint.host, endpoint.port, "me")
        try:
            topics = [FetchTopic(TOPIC, ZERO_ID, [FetchPartition(0, -1, end)])]
            request = FetchRequest(max_wait_ms=20_000, min_bytes=1, topics=topics)
            waiting = asyncio.create_task(connection.fetch(12, request))
            for _ in range(2_000):
                if partition.committed_watches:
                    break
                await asyncio.sleep(0.005)
            write = APIS[0].need("topic").options[0]
            await asyncio.to_thread(guarded.allow, (write, TOPIC))
            await asyncio.to_thread(guarded.ask, 0, 9, produce(guarded, 9))
            answer = await waiting
            return answer.topics[0].partitions[0].error_code
        finally:
            await connection.close()

    assert asyncio.run(exchange()) == 29
