"""The table of access as requests: what each API is asked, and what a denial must look like.

Any system that speaks Kafka's protocol can be a `Site`; the lists are set in its own way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from klamm.model.names import ZERO_ID
from klamm.protocol.apis import APIS as SERVED
from klamm.protocol.apis import ApiKey
from klamm.protocol.batch import Record, encode_batch
from klamm.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    allocate_producer_ids,
    alter_client_quotas,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    consumer_group_describe,
    consumer_group_heartbeat,
    controlled_shutdown,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leader_and_isr,
    leave_group,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    stop_replica,
    sync_group,
    txn_offset_commit,
    update_metadata,
    write_txn_markers,
)
from klamm.protocol.produce import PartitionRecords, ProduceRequest, TopicRecords
from klamm.security.authorization.acls import CLUSTER_NAME, Operation, Pattern, ResourceType
from klamm.security.authorization.apis import APIS
from klamm.security.authorization.needs import Need, Option, Told

TOPIC, GROUP, TXN, NEW = "secret-topic", "secret-group", "secret-txn", "new-topic"
LOADED_WITHIN_S = 60.0
NAMES = {
    ResourceType.TOPIC: TOPIC,
    ResourceType.GROUP: GROUP,
    ResourceType.TRANSACTIONAL_ID: TXN,
    ResourceType.CLUSTER: CLUSTER_NAME,
}
EVERYTHING = {
    Pattern(kind, CLUSTER_NAME if kind is ResourceType.CLUSTER else "*"): Operation.ALL
    for kind in NAMES
}


class Site:
    """A system with lists that a test sets as it likes."""

    topic_id: Any = None

    def set(self, rights: dict[Pattern, set[Operation]]) -> None:
        """Have the tried principal have exactly these rights."""
        raise NotImplementedError

    def ask(self, key: int, version: int, request: Any) -> Any:
        """The answer to the tried principal."""
        raise NotImplementedError

    def allow(self, *options: tuple[Option, str]) -> None:
        rights: dict[Pattern, set[Operation]] = {}
        for option, name in options:
            pattern = Pattern(option.right.type, option.name_of(name))
            rights.setdefault(pattern, set()).add(option.right.operation)
        self.set(rights)

    def allow_everything(self) -> None:
        self.set({pattern: {operation} for pattern, operation in EVERYTHING.items()})

    def furnish(self) -> None:
        """Give the topic that is there a name in a group and in a transaction."""
        (known,) = self.ask(3, 12, metadata.Request([named(TOPIC)])).topics
        self.topic_id = known.topic_id
        commit_something(self)
        open_transaction(self)


def named(topic: str) -> metadata.MetadataRequestTopic:
    return metadata.MetadataRequestTopic(ZERO_ID, topic)


def until_served(ask: Callable[[], int]) -> None:
    """The first requests to a coordinator find it loading."""
    deadline = time.monotonic() + LOADED_WITHIN_S
    while (code := ask()) != 0:
        assert time.monotonic() < deadline, code


def commit_something(made: Site) -> None:
    made.ask(10, 4, find_coordinator.Request(key_type=0, coordinator_keys=[GROUP]))
    until_served(lambda: made.ask(8, 9, committed()).topics[0].partitions[0].error_code)


def committed() -> offset_commit.Request:
    partition = offset_commit.OffsetCommitRequestPartition(0, 0, committed_metadata="")
    topic = offset_commit.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    return offset_commit.Request(group_id=GROUP, topics=[topic])


def open_transaction(made: Site) -> None:
    made.ask(10, 4, find_coordinator.Request(key_type=1, coordinator_keys=[TXN]))
    told: list[Any] = []

    def begin() -> int:
        told.append(made.ask(22, 5, init_producer_id.Request(TXN, 600_000)))
        return int(told[-1].error_code)

    until_served(begin)
    identity = (told[-1].producer_id, told[-1].producer_epoch)
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(TOPIC, [0])]
    request = add_partitions_to_txn.Request([], TXN, *identity, topics)
    until_served(
        lambda: (
            made.ask(24, 3, request)
            .results_by_topic_v3_and_below[0]
            .results_by_partition[0]
            .partition_error_code
        )
    )


# One request a case of the table: it names one resource, and does no harm where it is served.


def produce(made: Site, version: int, **kind: Any) -> ProduceRequest:
    batch = memoryview(encode_batch([Record(0, 1, b"k", b"v")], **kind))
    topics = [TopicRecords(TOPIC, [PartitionRecords(0, batch)])]
    return ProduceRequest(TXN if kind else None, 1, 1000, topics)


def transactional(made: Site, version: int) -> ProduceRequest:
    kind = {"producer_id": 99, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    return produce(made, version, **kind)


def fetch(made: Site, version: int, replica: int = -1) -> FetchRequest:
    topic_id = made.topic_id if version >= 13 else ZERO_ID
    name = "" if version >= 13 else TOPIC
    topics = [FetchTopic(name, topic_id, [FetchPartition(0, -1, 0)])]
    return FetchRequest(max_wait_ms=0, topics=topics, replica_id=replica)


def offset_fetched(made: Site, version: int, *, everything: bool = False) -> Any:
    id, name = (made.topic_id, "") if version >= 10 else (ZERO_ID, TOPIC)
    topics = [offset_fetch.OffsetFetchRequestTopics(id, name, [0])]
    old = [offset_fetch.OffsetFetchRequestTopic(TOPIC, [0])]
    if version >= 8:
        wanted = None if everything else topics
        return offset_fetch.Request([offset_fetch.OffsetFetchRequestGroup(GROUP, None, -1, wanted)])
    return offset_fetch.Request(group_id=GROUP, topics=None if everything else old)


def committing(made: Site, version: int) -> offset_commit.Request:
    request = committed()
    if version >= 10:
        request.topics[0].name, request.topics[0].topic_id = "", made.topic_id
    return request


def looked_for(kind: int, key: str) -> Callable[[Site, int], Any]:
    def request(made: Site, version: int) -> find_coordinator.Request:
        if version >= 4:
            return find_coordinator.Request(key_type=kind, coordinator_keys=[key])
        return find_coordinator.Request(key, kind if version else 0)

    return request


def control(made: Site, message: Callable[..., Any], version: int) -> Any:
    """An order of a controller whose time is over: whoever may give orders is told so."""
    return message(controller_id=0, controller_epoch=0)


def ordered(made: Site, version: int) -> leader_and_isr.Request:
    request: leader_and_isr.Request = control(made, leader_and_isr.Request, version)
    state = leader_and_isr.LeaderAndIsrPartitionState(partition_index=-7)
    if version >= 2:
        request.topic_states = [leader_and_isr.LeaderAndIsrTopicState("?", ZERO_ID, [state])]
    else:
        state.topic_name = "?"
        request.ungrouped_partition_states = [state]
    return request


def stopping(made: Site, version: int) -> stop_replica.Request:
    request: stop_replica.Request = control(made, stop_replica.Request, version)
    if version >= 3:
        state = stop_replica.StopReplicaPartitionState(-7)
        request.topic_states = [stop_replica.StopReplicaTopicState("?", [state])]
    elif version >= 1:
        request.topics = [stop_replica.StopReplicaTopicV1("?", [-7])]
    else:
        request.ungrouped_partitions = [stop_replica.StopReplicaPartitionV0("?", -7)]
    return request


def resource(module: Any, kind: int, name: str) -> Callable[[Site, int], Any]:
    def request(made: Site, version: int) -> Any:
        if module is describe_configs:
            wanted = describe_configs.DescribeConfigsResource(kind, name, ["retention.ms"])
            return describe_configs.Request([wanted])
        return module.Request([module.AlterConfigsResource(kind, name, [])], True)

    return request


def txn_committing(made: Site, version: int) -> txn_offset_commit.Request:
    partition = txn_offset_commit.TxnOffsetCommitRequestPartition(0, 1, committed_metadata="")
    topic = txn_offset_commit.TxnOffsetCommitRequestTopic(TOPIC, [partition])
    return txn_offset_commit.Request(TXN, GROUP, 99, 0, topics=[topic])


def joined_txn(made: Site, version: int) -> add_partitions_to_txn.Request:
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(TOPIC, [0])]
    if version >= 4:
        batch = add_partitions_to_txn.AddPartitionsToTxnTransaction(TXN, 99, 0, True, topics)
        return add_partitions_to_txn.Request([batch])
    return add_partitions_to_txn.Request([], TXN, 99, 0, topics)


def new_topic(made: Site, version: int) -> create_topics.Request:
    return create_topics.Request(
        [create_topics.CreatableTopic(NEW, 1, 1 if version else 99)], 0, version > 0
    )


def doomed(made: Site, version: int) -> delete_topics.Request:
    if version >= 6:
        return delete_topics.Request([delete_topics.DeleteTopicState(name=NEW)])
    return delete_topics.Request(topic_names=[NEW])


def markers(made: Site, version: int) -> write_txn_markers.Request:
    topic = write_txn_markers.WritableTxnMarkerTopic(TOPIC, [7])
    return write_txn_markers.Request([write_txn_markers.WritableTxnMarker(99, 0, True, [topic], 0)])


def beating(made: Site, version: int) -> consumer_group_heartbeat.Request:
    return consumer_group_heartbeat.Request(
        "other-group", "m", 7, rebalance_timeout_ms=1000, subscribed_topic_names=[TOPIC]
    )


def described(module: Any) -> Callable[[Site, int], Any]:
    return lambda made, version: module.Request(**{next(iter(_names(module))): [GROUP]})


def _names(module: Any) -> list[str]:
    return [field.name for field in fields(module.Request)]


def simple(request: Any) -> Callable[[Site, int], Any]:
    return lambda made, version: deepcopy(request)


CREATION = create_acls.AclCreation(2, "x", 3, "User:nobody", "*", 3, 3)
FILTER = delete_acls.DeleteAclsFilter(2, "x", 3, "User:nobody", None, 1, 1)
QUOTA = alter_client_quotas.EntryData(
    [alter_client_quotas.EntityData("user", "u")],
    [alter_client_quotas.OpData("producer_byte_rate", 5.0)],
)
MOVED = alter_partition_reassignments.ReassignableTopic(
    TOPIC, [alter_partition_reassignments.ReassignablePartition(7, None)]
)
LEADERS = elect_leaders.Request(0, [elect_leaders.TopicPartitions(TOPIC, [7])], 100)
LISTED = list_offsets.ListOffsetsTopic(TOPIC, [list_offsets.ListOffsetsPartition(0, -1, -1)])
EPOCHS = offset_for_leader_epoch.OffsetForLeaderTopic(
    TOPIC, [offset_for_leader_epoch.OffsetForLeaderPartition(0, -1, 0)]
)
RECORDS = delete_records.DeleteRecordsTopic(TOPIC, [delete_records.DeleteRecordsPartition(7, 0)])
OFFSETS = offset_delete.OffsetDeleteRequestTopic(
    TOPIC, [offset_delete.OffsetDeleteRequestPartition(7)]
)
MORE = create_partitions.Request(
    [create_partitions.CreatePartitionsTopic(TOPIC, 2, None)], 100, True
)
DIRS = alter_replica_log_dirs.Request(
    [
        alter_replica_log_dirs.AlterReplicaLogDir(
            "/nowhere", [alter_replica_log_dirs.AlterReplicaLogDirTopic(TOPIC, [0])]
        )
    ]
)
# Kafka looks for these before it looks at rights.
SYNCED = sync_group.Request(GROUP, protocol_type="consumer", protocol_name="range")
# Kafka never answers who asks for all and may not.
NOBODY = describe_user_scram_credentials.UserName("nobody")
NO_USER = alter_user_scram_credentials.ScramCredentialDeletion("nobody", 1)
PRODUCERS = describe_producers.Request([describe_producers.TopicRequest(TOPIC, [0])])

REQUESTS: dict[tuple[int, str], Callable[[Site, int], Any]] = {
    (0, "transaction"): transactional,
    (0, "topic"): produce,
    (1, "follower"): lambda made, version: fetch(made, version, replica=1),
    (1, "topic"): fetch,
    (2, "topic"): simple(list_offsets.Request(-1, 0, [LISTED])),
    (3, "topic"): simple(metadata.Request([named(TOPIC)])),
    (3, "all topics"): lambda made, version: metadata.Request(None if version else []),
    (3, "create"): lambda made, version: metadata.Request([named(f"auto-{version}")]),
    (3, "cluster operations"): simple(metadata.Request([], True, True)),
    (4, "cluster"): ordered,
    (5, "cluster"): stopping,
    (6, "cluster"): lambda made, v: control(made, update_metadata.Request, v),
    (7, "cluster"): simple(controlled_shutdown.Request(9, 9)),
    (8, "group"): committing,
    (8, "topic"): committing,
    (9, "group"): offset_fetched,
    (9, "topic"): offset_fetched,
    (9, "all topics"): lambda made, v: offset_fetched(made, v, everything=True),
    (10, "group"): looked_for(0, GROUP),
    (10, "transaction"): looked_for(1, TXN),
    (11, "group"): simple(join_group.Request(GROUP, 1)),
    (12, "group"): simple(heartbeat.Request(GROUP)),
    (13, "group"): simple(leave_group.Request(GROUP)),
    (14, "group"): simple(SYNCED),
    (15, "group"): described(describe_groups),
    (16, "group"): simple(list_groups.Request()),
    (19, "topic"): new_topic,
    (19, "configs"): new_topic,
    (20, "topic"): doomed,
    (21, "topic"): simple(delete_records.Request([RECORDS], 100)),
    (22, "transaction"): simple(init_producer_id.Request("other-txn", 600_000)),
    (22, "idempotent"): simple(init_producer_id.Request(None, 1000)),
    (23, "topic"): simple(offset_for_leader_epoch.Request(-1, [EPOCHS])),
    (24, "transaction"): joined_txn,
    (24, "topic"): joined_txn,
    (24, "cluster"): joined_txn,
    (25, "transaction"): simple(add_offsets_to_txn.Request(TXN, 99, 0, GROUP)),
    (25, "group"): simple(add_offsets_to_txn.Request(TXN, 99, 0, GROUP)),
    (26, "transaction"): simple(end_txn.Request(TXN, 99, 0)),
    (27, "cluster"): markers,
    (28, "transaction"): txn_committing,
    (28, "group"): txn_committing,
    (28, "topic"): txn_committing,
    (29, "cluster"): simple(describe_acls.Request(1, None, 3, None, None, 1, 1)),
    (30, "cluster"): simple(create_acls.Request([CREATION])),
    (31, "cluster"): simple(delete_acls.Request([FILTER])),
    (32, "broker"): resource(describe_configs, 4, "0"),
    (32, "topic"): resource(describe_configs, 2, TOPIC),
    (33, "broker"): resource(alter_configs, 4, "0"),
    (33, "topic"): resource(alter_configs, 2, TOPIC),
    (34, "cluster"): simple(DIRS),
    (35, "cluster"): simple(describe_log_dirs.Request(None)),
    (37, "topic"): simple(MORE),
    (42, "group"): simple(delete_groups.Request(["other-group"])),
    (43, "cluster"): simple(LEADERS),
    (44, "broker"): resource(incremental_alter_configs, 4, "0"),
    (44, "topic"): resource(incremental_alter_configs, 2, TOPIC),
    (45, "cluster"): simple(alter_partition_reassignments.Request(100, [MOVED])),
    (46, "cluster"): simple(list_partition_reassignments.Request(100, None)),
    (47, "group"): simple(offset_delete.Request(GROUP, [OFFSETS])),
    (47, "topic"): simple(offset_delete.Request(GROUP, [OFFSETS])),
    (48, "cluster"): simple(describe_client_quotas.Request()),
    (49, "cluster"): simple(alter_client_quotas.Request([QUOTA], True)),
    (50, "cluster"): simple(describe_user_scram_credentials.Request([NOBODY])),
    (51, "cluster"): simple(alter_user_scram_credentials.Request([NO_USER])),
    (56, "cluster"): simple(alter_partition.Request(9, 9)),
    (60, "cluster operations"): simple(describe_cluster.Request(True)),
    (61, "topic"): simple(PRODUCERS),
    (65, "transaction"): simple(describe_transactions.Request([TXN])),
    (65, "topic"): simple(describe_transactions.Request([TXN])),
    (66, "transaction"): simple(list_transactions.Request()),
    (67, "cluster"): simple(allocate_producer_ids.Request(9, 9)),
    (68, "group"): beating,
    (68, "topic"): beating,
    (69, "group"): described(consumer_group_describe),
    (1000, "line"): simple({"topic": TOPIC}),
    (1001, "topic"): simple({"topic": TOPIC}),
    (1001, "cluster"): simple({}),
    (1002, "cluster"): simple({"topic": TOPIC, "broker": 9}),
    (1003, "cluster"): simple({"kind": "delete", "topics": [TOPIC]}),
    (1004, "topic"): simple({"topic": TOPIC}),
    (1005, "topic"): simple({"topics": [TOPIC], "timeout_ms": 0}),
    (1006, "cluster"): lambda made, v: {"broker_epoch": -1, "controller_epoch": -1},
    (1007, "topic"): simple({"topics": [TOPIC]}),
    (1008, "topic"): simple(
        {"topic": TOPIC, "topic_id": "A" * 22, "manifest": "m", "sha256": "s", "records": 1}
    ),
    (1010, "cluster"): simple({}),
    (1011, "cluster"): simple({"kind": "settings", "topics": []}),
    (1013, "topic"): simple(
        {"topic": TOPIC, "topic_id": "A" * 22, "other": TOPIC, "other_id": "A" * 22}
    ),
    (1014, "cluster"): simple({}),
}
# Asked elsewhere: what takes more than one request, or is not served.
ELSEWHERE = {
    (10, "share"): "klamm has no share groups",
    (1012, "cluster"): "test_importing.py: it is not all JSON",
    (20, "name"): "test_a_topic_is_deleted_by_id_only_by_who_may_know_its_name",
    (57, "cluster"): "klamm has no features",
    (58, "cluster"): "klamm forwards nothing",
    (69, "topic"): "test_a_group_tells_no_names_of_topics",
    (38, "owner"): "tests/unit/broker/api/test_delegation_tokens.py",
    (41, "token"): "tests/unit/broker/api/test_delegation_tokens.py",
    (41, "owner"): "tests/unit/broker/api/test_delegation_tokens.py",
}
OTHER_GROUP = ("other-group", ResourceType.GROUP)
NEW_TOPIC = (NEW, ResourceType.TOPIC)
# The cases that are not about the names of all others.
ON = {
    (3, "create"): ("auto-{version}", ResourceType.TOPIC),
    (19, "topic"): NEW_TOPIC,
    (19, "configs"): NEW_TOPIC,
    (20, "topic"): NEW_TOPIC,
    (22, "transaction"): ("other-txn", ResourceType.TRANSACTIONAL_ID),
    (42, "group"): OTHER_GROUP,
    (68, "group"): OTHER_GROUP,
    (68, "topic"): OTHER_GROUP,
}


def name_of(key: int, need: Need, option: Option, version: int) -> str:
    name, kind = ON.get((key, need.case), ("", None))
    is_other = kind is option.right.type
    return name.format(version=version) if is_other else NAMES.get(option.right.type, "")


# Message sets, which came before batches, are never part of a transaction.
SINCE = {(0, "transaction"): 3}


def cases() -> Iterator[Any]:
    for api in APIS.values():
        for need in api.needs:
            if (api.key, need.case) in ELSEWHERE:
                continue
            low, high = max(need.low, SINCE.get((api.key, need.case), 0)), need.high
            if api.key < 1000:
                served = SERVED[ApiKey(api.key)].served
                low, high = max(low, served.low), min(high, served.high)
            for version in dict.fromkeys((low, high)) if api.key < 1000 else (0,):
                if low <= high:
                    yield pytest.param(
                        api.key, need, version, id=f"{api.name}-v{version}-{need.case}"
                    )


def codes(answer: Any, *, top: bool) -> list[int]:
    """The codes at the top of an answer, or those below."""
    if isinstance(answer, dict):
        return [answer["error_code"]] if top else []
    found: list[int] = []
    if is_dataclass(answer) or hasattr(answer, "_fields"):
        names = answer._fields if hasattr(answer, "_fields") else [f.name for f in fields(answer)]
        for name in names:
            value = getattr(answer, name)
            if name in ("error_code", "partition_error_code"):
                found += [value] if top else []
            elif isinstance(value, list) and not top:
                for each in value:
                    found += codes(each, top=True) + codes(each, top=False)
    return found


def background(key: int, need: Need, version: int) -> list[tuple[Option, str]]:
    """All that the API wants besides: the case is about this need only."""
    mine = {option.right for option in need.options}
    return [
        (option, name_of(key, need, option, version))
        for other in APIS[key].needs
        if other.low <= version <= other.high
        for option in other.options
        if option.right not in mine
    ]


def check(made: Site, need: Need, answer: Any, *, is_denied: bool) -> None:
    top, below = codes(answer, top=True), codes(answer, top=False)
    match need.told:
        case Told.REQUEST:
            assert (top == [need.code]) == is_denied, answer
        case Told.REQUEST_AND_ITEMS:
            assert (top == [need.code]) == is_denied, answer
            assert not is_denied or set(below) == {need.code}, answer
        case Told.OMITTED:
            secret = NAMES[need.options[-1].right.type]
            shown = [secret, str(made.topic_id)] if secret == TOPIC else [secret, "log_dir="]
            assert any(name in repr(answer) for name in shown) != is_denied, answer
        case Told.ZERO:
            assert (answer.cluster_authorized_operations == 0) == is_denied, answer
        case Told.CONFIGS:
            (topic,) = answer.topics
            assert topic.error_code == 0, answer
            assert (topic.topic_config_error_code == need.code) == is_denied, answer
            assert (topic.num_partitions == -1) == is_denied, answer
        case _:
            # A group that is well has partitions that are not.
            found = set(below) - ({0} if need.told is Told.PARTITION else set())
            assert below, answer
            assert found == {need.code} if is_denied else need.code not in below, answer
