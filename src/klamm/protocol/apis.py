"""The APIs klamm knows, in key order: which versions it understands and which it admits to.

The range is Kafka 3.9's in ZooKeeper mode, from version 0 on. The new group protocol (KIP-848) is
that of Kafka 4, and with it come the versions 10 of OffsetCommit and OffsetFetch. Absent on purpose
are telemetry, share groups, KRaft and delegation tokens: clients fall back or never ask.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple


class ApiKey(IntEnum):
    """The number that opens every request."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    ALTER_PARTITION = 56
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69


class Versions(NamedTuple):
    """A closed range of versions."""

    low: int
    high: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


class Api(NamedTuple):
    """One row of the table."""

    key: ApiKey
    served: Versions
    advertised: Versions | None  # None: only brokers speak it, and they know
    flexible_from: int  # the first version with compact types and tagged fields
    client_high: int  # the newest version that is for clients; those above are for brokers

    @property
    def name(self) -> str:
        """The snake_case name: that of the message module and of the handler's file."""
        return self.key.name.lower()

    @property
    def title(self) -> str:
        """The name as Kafka writes it."""
        return self.key.name.title().replace("_", "")

    def is_flexible(self, version: int) -> bool:
        """Whether this version has compact types and tagged fields."""
        return version >= self.flexible_from

    def request_header_version(self, version: int) -> int:
        """The layout of the header in front of this request."""
        if self.key is ApiKey.CONTROLLED_SHUTDOWN and version == 0:
            return 0
        return 2 if self.is_flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        """The layout of the header in front of the answer.

        A client that asks ApiVersions does not know yet what the broker speaks, so that answer
        always has the oldest header.
        """
        return 1 if self.is_flexible(version) and self.key is not ApiKey.API_VERSIONS else 0


_NEVER: Final = 1 << 15


def _api(
    key: ApiKey,
    low: int,
    high: int,
    flexible_from: int = _NEVER,
    *,
    advertised: tuple[int, int] | None = None,
    client_high: int | None = None,
    internal: bool = False,
) -> Api:
    served = Versions(low, high)
    told = None if internal else Versions(*advertised) if advertised else served
    return Api(key, served, told, flexible_from, high if client_high is None else client_high)


_TABLE: Final = (
    _api(ApiKey.PRODUCE, 0, 11, 9),
    _api(ApiKey.FETCH, 0, 17, 12),
    _api(ApiKey.LIST_OFFSETS, 0, 9, 6),
    _api(ApiKey.METADATA, 0, 12, 9),
    _api(ApiKey.LEADER_AND_ISR, 0, 7, 4, internal=True),
    _api(ApiKey.STOP_REPLICA, 0, 4, 2, internal=True),
    _api(ApiKey.UPDATE_METADATA, 0, 8, 6, internal=True),
    _api(ApiKey.CONTROLLED_SHUTDOWN, 0, 3, 3, internal=True),
    _api(ApiKey.OFFSET_COMMIT, 1, 10, 8),
    _api(ApiKey.OFFSET_FETCH, 1, 10, 6),
    _api(ApiKey.FIND_COORDINATOR, 0, 6, 3),
    _api(ApiKey.JOIN_GROUP, 0, 9, 6),
    _api(ApiKey.HEARTBEAT, 0, 4, 4),
    _api(ApiKey.LEAVE_GROUP, 0, 5, 4),
    _api(ApiKey.SYNC_GROUP, 0, 5, 4),
    _api(ApiKey.DESCRIBE_GROUPS, 0, 5, 5),
    _api(ApiKey.LIST_GROUPS, 0, 5, 3),
    _api(ApiKey.SASL_HANDSHAKE, 0, 1),
    _api(ApiKey.API_VERSIONS, 0, 4, 3),
    _api(ApiKey.CREATE_TOPICS, 0, 7, 5),
    _api(ApiKey.DELETE_TOPICS, 0, 6, 4),
    _api(ApiKey.DELETE_RECORDS, 0, 2, 2),
    _api(ApiKey.INIT_PRODUCER_ID, 0, 5, 2),
    _api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 0, 4, 4),
    # Versions 4 and 5 batch several transactions and are for brokers that verify one.
    _api(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, 3, client_high=3),
    _api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, 3),
    _api(ApiKey.END_TXN, 0, 4, 3),
    _api(ApiKey.WRITE_TXN_MARKERS, 0, 1, 1),
    _api(ApiKey.TXN_OFFSET_COMMIT, 0, 4, 3),
    _api(ApiKey.DESCRIBE_ACLS, 0, 3, 2),
    _api(ApiKey.CREATE_ACLS, 0, 3, 2),
    _api(ApiKey.DELETE_ACLS, 0, 3, 2),
    _api(ApiKey.DESCRIBE_CONFIGS, 0, 4, 4),
    _api(ApiKey.ALTER_CONFIGS, 0, 2, 2),
    _api(ApiKey.ALTER_REPLICA_LOG_DIRS, 0, 2, 2),
    _api(ApiKey.DESCRIBE_LOG_DIRS, 0, 4, 2),
    _api(ApiKey.SASL_AUTHENTICATE, 0, 2, 2),
    _api(ApiKey.CREATE_PARTITIONS, 0, 3, 2),
    _api(ApiKey.CREATE_DELEGATION_TOKEN, 0, 3, 2),
    _api(ApiKey.RENEW_DELEGATION_TOKEN, 0, 2, 2),
    _api(ApiKey.EXPIRE_DELEGATION_TOKEN, 0, 2, 2),
    _api(ApiKey.DESCRIBE_DELEGATION_TOKEN, 0, 3, 2),
    _api(ApiKey.DELETE_GROUPS, 0, 2, 2),
    _api(ApiKey.ELECT_LEADERS, 0, 2, 2),
    _api(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, 1),
    _api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 0, 0),
    _api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, 0),
    _api(ApiKey.OFFSET_DELETE, 0, 0),
    _api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, 1),
    _api(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, 1),
    _api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, 0),
    _api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, 0),
    _api(ApiKey.ALTER_PARTITION, 0, 3, 0),
    _api(ApiKey.DESCRIBE_CLUSTER, 0, 1, 0),
    _api(ApiKey.DESCRIBE_PRODUCERS, 0, 0, 0),
    _api(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, 0),
    _api(ApiKey.LIST_TRANSACTIONS, 0, 1, 0),
    _api(ApiKey.ALLOCATE_PRODUCER_IDS, 0, 0, 0),
    _api(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, 0),
    _api(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, 0),
)

APIS: Final[Mapping[int, Api]] = {api.key: api for api in _TABLE}


def advertised(implemented: Iterable[int]) -> list[tuple[ApiKey, Versions]]:
    """The list for ApiVersions, in key order, of those APIs that have a handler."""
    wanted = frozenset(implemented)
    return [(a.key, a.advertised) for a in _TABLE if a.key in wanted and a.advertised is not None]
