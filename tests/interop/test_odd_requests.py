"""Requests at the border of what makes sense, answered as Apache Kafka 3.9 answers them.

Each of these was found by asking both the same at random; see `make differential`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from interop.wire import Wire, codes
from klamm import Cluster
from klamm.model.errors import ErrorCode
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import (
    add_partitions_to_txn,
    delete_groups,
    describe_client_quotas,
    describe_cluster,
    describe_groups,
    describe_producers,
    describe_transactions,
    fetch,
    find_coordinator,
    init_producer_id,
    join_group,
    list_groups,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
    txn_offset_commit,
)

NOWHERE, HERE = "nowhere", "here"


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    settings = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    with Cluster(brokers=1, settings=settings) as cluster:
        cluster.create_topic(HERE, partitions=1, replication_factor=1)
        wire = Wire(cluster)
        for kind in (0, 1):
            _find(wire, "g", kind)
        yield wire


def _find(wire: Wire, key: str, kind: int) -> find_coordinator.Coordinator:
    """The coordinator, once its topic is there."""
    while True:
        request = find_coordinator.Request(key_type=kind, coordinator_keys=[key])
        (found,) = wire.ask(ApiKey.FIND_COORDINATOR, 4, request).coordinators
        if found.error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE:
            return found  # type: ignore[no-any-return]


def _commit(wire: Wire, group: str, *topics: str, generation: int = -1) -> list[ErrorCode]:
    asked = [
        offset_commit.OffsetCommitRequestTopic(
            name=topic,
            partitions=[offset_commit.OffsetCommitRequestPartition(0, committed_offset=3)],
        )
        for topic in topics
    ]
    request = offset_commit.Request(
        group_id=group, generation_id_or_member_epoch=generation, topics=asked
    )
    response = wire.ask(ApiKey.OFFSET_COMMIT, 8, request)
    return [code for topic in response.topics for code in codes(topic.partitions)]


def _groups(wire: Wire) -> set[str]:
    response = wire.ask(ApiKey.LIST_GROUPS, 4, list_groups.Request())
    return {group.group_id for group in response.groups}


def test_a_coordinator_is_found_for_a_group_without_a_name(wire: Wire) -> None:
    assert _find(wire, "", 0).error_code == ErrorCode.NONE


def test_offsets_are_kept_for_a_group_without_a_name(wire: Wire) -> None:
    assert _commit(wire, "", HERE) == [ErrorCode.NONE]
    topics = [offset_fetch.OffsetFetchRequestTopic(HERE, [0])]
    request = offset_fetch.Request(group_id="", topics=topics)
    found = wire.ask(ApiKey.OFFSET_FETCH, 7, request)
    assert found.topics[0].partitions[0].committed_offset == 3
    (told,) = wire.ask(ApiKey.DESCRIBE_GROUPS, 5, describe_groups.Request([""])).groups
    assert (told.error_code, told.group_state) == (ErrorCode.NONE, "Empty")
    gone = wire.ask(ApiKey.DELETE_GROUPS, 2, delete_groups.Request([""]))
    assert codes(gone.results) == [ErrorCode.NONE]
    gone = wire.ask(ApiKey.DELETE_GROUPS, 2, delete_groups.Request([""]))
    assert codes(gone.results) == [ErrorCode.GROUP_ID_NOT_FOUND]


def test_a_commit_tells_of_a_missing_topic_before_it_asks_the_group(wire: Wire) -> None:
    assert _commit(wire, "g-late", NOWHERE, HERE, generation=5) == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.ILLEGAL_GENERATION,
    ]
    assert _commit(wire, "g-new", NOWHERE) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert "g-new" not in _groups(wire)


def _txn_commit(wire: Wire, version: int, **fields: Any) -> ErrorCode:
    partition = txn_offset_commit.TxnOffsetCommitRequestPartition(0, committed_offset=1)
    request = txn_offset_commit.Request(
        group_id="g-txn",
        topics=[txn_offset_commit.TxnOffsetCommitRequestTopic(HERE, [partition])],
        **fields,
    )
    (topic,) = wire.ask(ApiKey.TXN_OFFSET_COMMIT, version, request).topics
    return codes(topic.partitions)[0]


def test_offsets_of_a_producer_that_nobody_is_are_refused(wire: Wire) -> None:
    nobody = {"producer_id": -1, "producer_epoch": 0}
    mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert _txn_commit(wire, 1, transactional_id="nobody", **nobody) is mapping
    assert _txn_commit(wire, 1, transactional_id="", **nobody) is ErrorCode.INVALID_REQUEST
    assert "g-txn" not in _groups(wire)


def test_offsets_outside_of_a_transaction_are_refused_in_words_the_client_knows(wire: Wire) -> None:
    request = init_producer_id.Request("txn", 60_000)
    made = wire.ask(ApiKey.INIT_PRODUCER_ID, 4, request)
    who = {
        "transactional_id": "txn",
        "producer_id": made.producer_id,
        "producer_epoch": made.producer_epoch,
    }
    assert _txn_commit(wire, 3, **who) is ErrorCode.INVALID_TXN_STATE
    assert _txn_commit(wire, 4, **who) is ErrorCode.TRANSACTION_ABORTABLE


def test_internal_topics_are_not_part_of_a_clients_transaction(wire: Wire) -> None:
    request = add_partitions_to_txn.Request(
        v3_and_below_transactional_id="txn",
        v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[
            add_partitions_to_txn.AddPartitionsToTxnTopic("__consumer_offsets", [0]),
            add_partitions_to_txn.AddPartitionsToTxnTopic(HERE, [0]),
        ],
    )
    answer = wire.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, request)
    assert [
        result.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for result in topic.results_by_partition
    ] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.OPERATION_NOT_ATTEMPTED]


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (5, -1)])
def test_an_id_and_an_epoch_come_together(wire: Wire, producer_id: int, epoch: int) -> None:
    request = init_producer_id.Request("txn-half", 60_000, producer_id, epoch)
    answer = wire.ask(ApiKey.INIT_PRODUCER_ID, 4, request)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


def test_a_transactional_id_without_letters_is_described_as_a_fault(wire: Wire) -> None:
    request = describe_transactions.Request([""])
    answer = wire.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, request)
    assert codes(answer.transaction_states) == [ErrorCode.INVALID_REQUEST]


def test_producers_of_a_name_that_no_topic_can_have(wire: Wire) -> None:
    request = describe_producers.Request([describe_producers.TopicRequest("a b", [0])])
    (topic,) = wire.ask(ApiKey.DESCRIBE_PRODUCERS, 0, request).topics
    assert codes(topic.partitions) == [ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_a_refused_session_leaves_no_group(wire: Wire) -> None:
    protocols = [join_group.JoinGroupRequestProtocol("range", b"")]
    request = join_group.Request(
        "g-hasty", 1, 1_000, "", protocol_type="consumer", protocols=protocols
    )
    answer = wire.ask(ApiKey.JOIN_GROUP, 5, request)
    assert answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert "g-hasty" not in _groups(wire)


def test_a_member_says_what_it_agreed_to(wire: Wire) -> None:
    answer = wire.ask(ApiKey.SYNC_GROUP, 5, sync_group.Request("g-silent", 1, "m"))
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(
    ("session", "epoch", "expected"),
    [
        (0, 3, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (7, 3, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (7, 0, ErrorCode.NONE),
        (7, -1, ErrorCode.NONE),
    ],
)
def test_a_consumer_goes_on_with_no_session_that_it_was_not_given(
    wire: Wire, session: int, epoch: int, expected: ErrorCode
) -> None:
    request = fetch.Request(session_id=session, session_epoch=epoch)
    assert wire.ask(ApiKey.FETCH, 12, request).error_code == expected


def test_a_name_beside_any_match_of_a_quota_is_passed_over(wire: Wire) -> None:
    component = describe_client_quotas.ComponentData("user", 2, "somebody")
    request = describe_client_quotas.Request([component], strict=True)
    answer = wire.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, request)
    assert (answer.error_code, answer.entries) == (ErrorCode.NONE, [])


def test_a_refusal_of_other_endpoints_is_about_brokers(wire: Wire) -> None:
    answer = wire.ask(ApiKey.DESCRIBE_CLUSTER, 1, describe_cluster.Request(endpoint_type=2))
    assert answer.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    assert answer.endpoint_type == 1


def test_a_group_without_members_goes_with_its_last_offset(wire: Wire) -> None:
    assert _commit(wire, "g-brief", HERE) == [ErrorCode.NONE]
    assert "g-brief" in _groups(wire)
    partitions = [offset_delete.OffsetDeleteRequestPartition(0)]
    topics = [offset_delete.OffsetDeleteRequestTopic(HERE, partitions)]
    answer = wire.ask(ApiKey.OFFSET_DELETE, 0, offset_delete.Request("g-brief", topics))
    assert answer.error_code == ErrorCode.NONE
    assert "g-brief" not in _groups(wire)


def test_a_reader_with_an_old_epoch_is_told_the_new_one() -> None:
    with Cluster(brokers=2) as cluster:
        cluster.create_topic(HERE, partitions=1, replication_factor=2)
        first = cluster.wait_for_leader(HERE)
        cluster.stop_broker(first)
        leader = cluster.wait_for_leader(HERE, other_than=first)
        wire = Wire(cluster)
        named = [metadata.MetadataRequestTopic(name=HERE)]
        (found,) = wire.ask(ApiKey.METADATA, 12, metadata.Request(named)).topics
        partition = fetch.FetchPartition(0, current_leader_epoch=0, partition_max_bytes=1)
        topic = fetch.FetchTopic(topic_id=found.topic_id, topic=HERE, partitions=[partition])
        request = fetch.Request(topics=[topic])
        answers = {
            version: wire.ask(ApiKey.FETCH, version, request, broker=leader) for version in (12, 16)
        }
    (before,), (told,) = (each.responses[0].partitions for each in answers.values())
    assert {before.error_code, told.error_code} == {ErrorCode.FENCED_LEADER_EPOCH}
    assert before.current_leader.leader_id == -1, "KIP-951 came with version 16"
    assert told.current_leader.leader_id == leader
    assert told.current_leader.leader_epoch > 0
