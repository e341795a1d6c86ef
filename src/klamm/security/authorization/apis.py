"""The table of all APIs: what each checks, on what, and what a denial looks like.

It is Kafka 3.9's in ZooKeeper mode. Whoever serves a request reads its row, and so does the test
that asks every API over the wire without a right and with exactly it. Rows of what klamm does not
serve (forwarding, features) are here because the table is also the documentation.

Not in the table: an unknown topic id is answered before any check (Fetch, DeleteTopics); Produce
with acks=0 has no answer, so a denial closes the connection; a denial answers the same whether the
resource exists or not, since nothing is looked up before it is allowed. klamm's private APIs that
only tell need DESCRIBE, those that change something ALTER, those between brokers CLUSTER_ACTION.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from klamm.model.errors import ErrorCode
from klamm.security.authorization.needs import Api, Need, Told, need

_NOT_CONTROLLER: Final = (ErrorCode.NOT_CONTROLLER,)
_CLUSTER_ACTION: Final = need("cluster", "CLUSTER_ACTION CLUSTER", Told.REQUEST)
_ORDER: Final = need("cluster", "CLUSTER_ACTION CLUSTER", Told.REQUEST_AND_ITEMS)
_NO_TOPIC: Final = "Topic authorization failed."
_NO_GROUP: Final = "Group authorization failed."
_NO_TRANSACTION: Final = "Transactional Id authorization failed."
_NO_CLUSTER: Final = "Cluster authorization failed."
_READ_GROUP: Final = need("group", "READ GROUP", Told.REQUEST)
_WRITE_TRANSACTION: Final = need("transaction", "WRITE TRANSACTIONAL_ID", Told.REQUEST)


def _api(key: int, name: str, *needs: Need, first: tuple[ErrorCode, ...] = ()) -> Api:
    return Api(key=key, name=name, needs=needs, first=first)


_TABLE: Final = (
    _api(
        0,
        "Produce",
        # Only where a batch is transactional, also when the request names no transactional id.
        need("transaction", "WRITE TRANSACTIONAL_ID", Told.ALL_PARTITIONS),
        need("topic", "WRITE TOPIC", Told.PARTITION),
    ),
    _api(
        1,
        "Fetch",
        need(
            "follower",
            "CLUSTER_ACTION CLUSTER",
            Told.ALL_PARTITIONS,
            code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ),
        need("topic", "READ TOPIC", Told.PARTITION),
    ),
    _api(2, "ListOffsets", need("topic", "DESCRIBE TOPIC", Told.PARTITION)),
    _api(
        3,
        "Metadata",
        # By name with a zero id, by id without a name.
        need("topic", "DESCRIBE TOPIC", Told.TOPIC),
        need("all topics", "DESCRIBE TOPIC quiet", Told.OMITTED),
        # Asked only of who may describe the missing topic.
        need("create", "CREATE CLUSTER quiet or CREATE TOPIC", Told.TOPIC),
        need("cluster operations", "DESCRIBE CLUSTER", Told.ZERO, versions=(8, 10)),
    ),
    _api(4, "LeaderAndIsr", _ORDER),
    _api(5, "StopReplica", _ORDER),
    _api(6, "UpdateMetadata", _CLUSTER_ACTION),
    _api(7, "ControlledShutdown", _CLUSTER_ACTION),
    _api(
        8,
        "OffsetCommit",
        need("group", "READ GROUP", Told.ALL_PARTITIONS),
        need("topic", "READ TOPIC", Told.PARTITION),
    ),
    _api(
        9,
        "OffsetFetch",
        need("group", "DESCRIBE GROUP", Told.ALL_PARTITIONS, versions=(0, 1)),
        need("group", "DESCRIBE GROUP", Told.REQUEST, versions=(2, 7)),
        need("group", "DESCRIBE GROUP", Told.GROUP, versions=(8, 99)),
        need("topic", "DESCRIBE TOPIC", Told.PARTITION),
        need("all topics", "DESCRIBE TOPIC quiet", Told.OMITTED, versions=(2, 99)),
    ),
    _api(
        10,
        "FindCoordinator",
        *(
            need(case, right, told, versions=versions, message=message)
            for case, right, since, message in (
                ("group", "DESCRIBE GROUP", 0, _NO_GROUP),
                ("transaction", "DESCRIBE TRANSACTIONAL_ID", 1, _NO_TRANSACTION),
                ("share", "CLUSTER_ACTION CLUSTER", 1, _NO_CLUSTER),
            )
            for told, versions in ((Told.REQUEST, (since, 3)), (Told.KEY, (4, 99)))
        ),
    ),
    _api(11, "JoinGroup", _READ_GROUP),
    _api(12, "Heartbeat", _READ_GROUP),
    _api(13, "LeaveGroup", _READ_GROUP),
    _api(14, "SyncGroup", _READ_GROUP),
    _api(15, "DescribeGroups", need("group", "DESCRIBE GROUP", Told.GROUP)),
    _api(
        16,
        "ListGroups",
        need("group", "DESCRIBE CLUSTER quiet or DESCRIBE GROUP quiet", Told.OMITTED),
    ),
    _api(17, "SaslHandshake"),
    _api(18, "ApiVersions"),
    _api(
        19,
        "CreateTopics",
        need(
            "topic",
            "CREATE CLUSTER quiet or CREATE TOPIC",
            Told.TOPIC,
            message="Authorization failed.",
        ),
        need("configs", "DESCRIBE_CONFIGS TOPIC quiet", Told.CONFIGS, versions=(5, 99)),
        first=_NOT_CONTROLLER,
    ),
    _api(
        20,
        "DeleteTopics",
        # By id first: who may not describe the topic does not learn its name.
        need("name", "DESCRIBE TOPIC", Told.TOPIC, versions=(6, 99)),
        need("topic", "DELETE TOPIC", Told.TOPIC),
        first=(
            ErrorCode.NOT_CONTROLLER,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.TOPIC_DELETION_DISABLED,
        ),
    ),
    _api(21, "DeleteRecords", need("topic", "DELETE TOPIC", Told.PARTITION)),
    _api(
        22,
        "InitProducerId",
        _WRITE_TRANSACTION,
        need(
            "idempotent",
            "IDEMPOTENT_WRITE CLUSTER quiet or WRITE TOPIC some",
            Told.REQUEST,
            code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ),
    ),
    _api(
        23,
        "OffsetForLeaderEpoch",
        need("topic", "CLUSTER_ACTION CLUSTER quiet or DESCRIBE TOPIC", Told.PARTITION),
    ),
    _api(
        24,
        "AddPartitionsToTxn",
        need("transaction", "WRITE TRANSACTIONAL_ID", Told.ALL_PARTITIONS, versions=(0, 3)),
        need(
            "topic",
            "WRITE TOPIC",
            Told.PARTITION,
            versions=(0, 3),
            others=ErrorCode.OPERATION_NOT_ATTEMPTED,
        ),
        need("cluster", "CLUSTER_ACTION CLUSTER", Told.REQUEST, versions=(4, 99)),
    ),
    _api(25, "AddOffsetsToTxn", _WRITE_TRANSACTION, _READ_GROUP),
    _api(26, "EndTxn", _WRITE_TRANSACTION),
    _api(
        27,
        "WriteTxnMarkers",
        need("cluster", "ALTER CLUSTER quiet or CLUSTER_ACTION CLUSTER", Told.ALL_PARTITIONS),
    ),
    _api(
        28,
        "TxnOffsetCommit",
        need("transaction", "WRITE TRANSACTIONAL_ID", Told.ALL_PARTITIONS),
        need("group", "READ GROUP", Told.ALL_PARTITIONS),
        need("topic", "READ TOPIC", Told.PARTITION),
    ),
    _api(
        29, "DescribeAcls", need("cluster", "DESCRIBE CLUSTER", Told.REQUEST, message=_NO_CLUSTER)
    ),
    _api(30, "CreateAcls", need("cluster", "ALTER CLUSTER", Told.ITEM, message=_NO_CLUSTER)),
    _api(31, "DeleteAcls", need("cluster", "ALTER CLUSTER", Told.ITEM, message=_NO_CLUSTER)),
    _api(
        32,
        "DescribeConfigs",
        need("broker", "DESCRIBE_CONFIGS CLUSTER", Told.ITEM, message=_NO_CLUSTER),
        need("topic", "DESCRIBE_CONFIGS TOPIC", Told.ITEM, message=_NO_TOPIC),
    ),
    _api(
        33,
        "AlterConfigs",
        need("broker", "ALTER_CONFIGS CLUSTER", Told.ITEM),
        need("topic", "ALTER_CONFIGS TOPIC", Told.ITEM),
    ),
    _api(34, "AlterReplicaLogDirs", need("cluster", "ALTER CLUSTER", Told.ALL_PARTITIONS)),
    _api(
        35,
        "DescribeLogDirs",
        need("cluster", "DESCRIBE CLUSTER", Told.OMITTED, versions=(0, 2)),
        need("cluster", "DESCRIBE CLUSTER", Told.REQUEST, versions=(3, 99)),
    ),
    _api(36, "SaslAuthenticate"),
    _api(
        37,
        "CreatePartitions",
        need("topic", "ALTER TOPIC", Told.TOPIC, message="The topic authorization is failed."),
        first=(ErrorCode.NOT_CONTROLLER, ErrorCode.INVALID_REQUEST),
    ),
    _api(
        38,
        "CreateDelegationToken",
        # On the owner, and only where it is somebody else than the requester.
        need("owner", "CREATE_TOKENS USER", Told.REQUEST),
        first=(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,),
    ),
    _api(39, "RenewDelegationToken"),
    _api(40, "ExpireDelegationToken"),
    _api(
        41,
        "DescribeDelegationToken",
        # Owners and renewers see theirs without it.
        need("token", "DESCRIBE DELEGATION_TOKEN quiet", Told.OMITTED),
        need("owner", "DESCRIBE_TOKENS USER quiet", Told.OMITTED),
    ),
    _api(42, "DeleteGroups", need("group", "DELETE GROUP", Told.GROUP)),
    _api(
        43,
        "ElectLeaders",
        need("cluster", "ALTER CLUSTER", Told.ALL_PARTITIONS, versions=(0, 0)),
        need("cluster", "ALTER CLUSTER", Told.REQUEST_AND_ITEMS, versions=(1, 99)),
    ),
    _api(
        44,
        "IncrementalAlterConfigs",
        need("broker", "ALTER_CONFIGS CLUSTER", Told.ITEM),
        need("topic", "ALTER_CONFIGS TOPIC", Told.ITEM),
    ),
    _api(
        45,
        "AlterPartitionReassignments",
        need("cluster", "ALTER CLUSTER", Told.REQUEST_AND_ITEMS, message=_NO_CLUSTER),
    ),
    _api(
        46,
        "ListPartitionReassignments",
        need("cluster", "DESCRIBE CLUSTER", Told.REQUEST, message=_NO_CLUSTER),
    ),
    _api(
        47,
        "OffsetDelete",
        need("group", "DELETE GROUP", Told.REQUEST),
        need("topic", "READ TOPIC", Told.PARTITION),
    ),
    _api(48, "DescribeClientQuotas", need("cluster", "DESCRIBE_CONFIGS CLUSTER", Told.REQUEST)),
    _api(
        49,
        "AlterClientQuotas",
        need("cluster", "ALTER_CONFIGS CLUSTER", Told.ITEM, message=_NO_CLUSTER),
    ),
    _api(50, "DescribeUserScramCredentials", need("cluster", "DESCRIBE CLUSTER", Told.REQUEST)),
    _api(
        51,
        "AlterUserScramCredentials",
        need("cluster", "ALTER CLUSTER", Told.ITEM),
        first=_NOT_CONTROLLER,
    ),
    _api(56, "AlterPartition", _CLUSTER_ACTION),
    _api(57, "UpdateFeatures", need("cluster", "ALTER CLUSTER", Told.REQUEST)),
    _api(58, "Envelope", _CLUSTER_ACTION),
    _api(60, "DescribeCluster", need("cluster operations", "DESCRIBE CLUSTER", Told.ZERO)),
    _api(
        61,
        "DescribeProducers",
        need("topic", "READ TOPIC", Told.PARTITION, message=_NO_TOPIC),
        first=(ErrorCode.INVALID_TOPIC_EXCEPTION,),
    ),
    _api(
        65,
        "DescribeTransactions",
        need("transaction", "DESCRIBE TRANSACTIONAL_ID", Told.ITEM),
        need("topic", "DESCRIBE TOPIC quiet", Told.OMITTED),
    ),
    _api(
        66,
        "ListTransactions",
        need("transaction", "DESCRIBE TRANSACTIONAL_ID quiet", Told.OMITTED),
    ),
    _api(67, "AllocateProducerIds", _CLUSTER_ACTION),
    _api(
        68,
        "ConsumerGroupHeartbeat",
        _READ_GROUP,
        # As in Kafka 4: before, a member could subscribe to what it may not describe.
        need("topic", "DESCRIBE TOPIC", Told.REQUEST),
        first=(ErrorCode.UNSUPPORTED_VERSION,),
    ),
    _api(
        69,
        "ConsumerGroupDescribe",
        need("group", "DESCRIBE GROUP", Told.GROUP),
        # As in Kafka 4: before, the members told the names of topics.
        need("topic", "DESCRIBE TOPIC", Told.GROUP),
        first=(ErrorCode.UNSUPPORTED_VERSION,),
    ),
    # klamm's own.
    _api(
        1000,
        "Story",
        need("line", "DESCRIBE CLUSTER quiet or DESCRIBE TOPIC quiet", Told.OMITTED),
    ),
    _api(
        1001,
        "Explain",
        need("topic", "DESCRIBE TOPIC", Told.REQUEST),
        need("cluster", "DESCRIBE CLUSTER", Told.REQUEST),  # where no topic is named
    ),
    _api(1002, "ForgetReplica", need("cluster", "ALTER CLUSTER", Told.REQUEST)),
    _api(1003, "Plan", need("cluster", "DESCRIBE CLUSTER", Told.REQUEST)),
    _api(1004, "CancelDeletion", need("topic", "ALTER TOPIC", Told.REQUEST)),
    _api(1005, "AwaitDeletion", need("topic", "DESCRIBE TOPIC", Told.REQUEST)),
    _api(1006, "RollCall", _CLUSTER_ACTION),
    _api(1007, "AtRest", need("topic", "DESCRIBE TOPIC", Told.REQUEST)),
    _api(1008, "Archived", need("topic", "ALTER TOPIC", Told.REQUEST)),
    # Two ends show each other that they know the cluster's secret: it is itself a check.
    _api(1009, "Prove"),
    _api(1010, "Status", need("cluster", "DESCRIBE CLUSTER", Told.REQUEST)),
    _api(1011, "Note", _CLUSTER_ACTION),
    _api(1012, "ImportRecords", _CLUSTER_ACTION),
    _api(1013, "SwapTopics", need("topic", "ALTER TOPIC", Told.REQUEST)),
    _api(1014, "States", need("cluster", "DESCRIBE CLUSTER", Told.REQUEST)),
)

APIS: Final[Mapping[int, Api]] = {api.key: api for api in _TABLE}

# Served to whoever has not said who they are yet.
BEFORE_AUTHENTICATION: Final = frozenset({17, 18, 36})
# Of KRaft, telemetry and others that ZooKeeper mode does not have: the connection is closed.
NOT_ENABLED: Final = frozenset({52, 53, 54, 55, 59, 62, 63, 64, *range(70, 76)})


def need_of(key: int, case: str, version: int = 0) -> Need:
    """The check of one API that goes by this name."""
    return APIS[key].need(case, version)
