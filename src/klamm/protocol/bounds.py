"""Limits the size of a request, by its API, before it is read.

A request is refused as soon as its first bytes say which API it is for and how long it will be, not
when all of it has arrived; and a body is read no further than to the last item that it may have.
An item is an element of any list of a message: a topic, a partition, a name; four plain numbers,
such as the ids of replicas, count as one.

- Produce carries records, and so does an import. It is as long as `socket.request.max.bytes` says,
  and may name a tenth of the partitions that others may.
- What brokers say to each other names every partition they have.
- What asks about one thing, such as a heartbeat, is short.
- klamm's own name topics and partitions that somebody typed or a program listed.
- All others may name as many topics and partitions as a large cluster has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Final

from klamm.protocol import private
from klamm.protocol.apis import APIS, ApiKey
from klamm.protocol.private import PrivateKey

# What asks about one thing. The longest of them carry a few names of 32 KB each.
SHORT_BYTES_MAX: Final = 256 * 1024
# Of what others may name: brokers name all they have, and a partition with records has some bytes.
_BROKERS_FACTOR: Final = 4
_RECORDS_DIVISOR: Final = 10
_PRIVATE_DIVISOR: Final = 5  # they are read in one go
_UNKNOWN: Final = -1


class RequestKind(Enum):
    """The subject of an API, as far as the size of its requests goes."""

    RECORDS = "records"
    BROKERS = "brokers"
    SHORT = "short"
    PRIVATE = "private"
    GENERAL = "general"


_RECORDS: Final = frozenset({ApiKey.PRODUCE, PrivateKey.IMPORT_RECORDS})
_BROKERS: Final = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.ALTER_PARTITION,
        ApiKey.WRITE_TXN_MARKERS,
    }
)
_SHORT: Final = frozenset(
    {
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.HEARTBEAT,
        ApiKey.LIST_GROUPS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.API_VERSIONS,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.ALLOCATE_PRODUCER_IDS,
    }
)
# They wait for others: for members, for followers, for the controller. Meanwhile they take nobody's
# place who has work to do.
WAITS: Final = frozenset(
    {
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.OFFSET_COMMIT,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DELETE_RECORDS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.OFFSET_DELETE,
        *_BROKERS,
        *PrivateKey,
    }
)


def kind_of(key: int) -> RequestKind:
    """The kind of an API."""
    if key in _RECORDS:
        return RequestKind.RECORDS
    if key in _BROKERS:
        return RequestKind.BROKERS
    if key in private.KEYS:
        return RequestKind.PRIVATE
    # An API that nobody knows has nothing to say either.
    return RequestKind.SHORT if key in _SHORT or key not in APIS else RequestKind.GENERAL


@dataclass(frozen=True)
class Bounds:
    """The limits for requests."""

    frame_bytes: int = 104_857_600  # of all
    body_bytes: int = 16 * 1024 * 1024  # of those that may name everything there is
    private_bytes: int = 4 * 1024 * 1024
    items: int = 250_000

    def bytes_of(self, key: int) -> int:
        """The most bytes a request for this API may have."""
        return self._by_key.get(key, self._by_key[_UNKNOWN])[0]

    def items_of(self, key: int) -> int:
        """The most items a request for this API may have."""
        return self._by_key.get(key, self._by_key[_UNKNOWN])[1]

    # The two that come by the thousand are not looked up.

    @cached_property
    def items_of_produce(self) -> int:
        return self.items_of(ApiKey.PRODUCE)

    @cached_property
    def items_of_fetch(self) -> int:
        return self.items_of(ApiKey.FETCH)

    @cached_property
    def bytes_of_any(self) -> int:
        """The most bytes a request may have, whatever it is for."""
        return min(size for size, _ in self._by_key.values())

    @cached_property
    def _by_key(self) -> Mapping[int, tuple[int, int]]:
        """Every request is looked up here, so it is worked out once."""
        return {int(key): self._of(kind_of(key)) for key in (*APIS, *PrivateKey, _UNKNOWN)}

    def _of(self, kind: RequestKind) -> tuple[int, int]:
        size, items = {
            RequestKind.RECORDS: (self.frame_bytes, self.items // _RECORDS_DIVISOR),
            RequestKind.BROKERS: (self.frame_bytes, self.items * _BROKERS_FACTOR),
            RequestKind.SHORT: (min(SHORT_BYTES_MAX, self.body_bytes), self.items),
            RequestKind.PRIVATE: (self.private_bytes, self.items // _PRIVATE_DIVISOR),
            RequestKind.GENERAL: (self.body_bytes, self.items),
        }[kind]
        return min(self.frame_bytes, size), items


def title_of(key: int) -> str:
    """An API's name as a person knows it."""
    if key in APIS:
        return APIS[key].title
    if key in PrivateKey.__members__.values():
        return PrivateKey(key).name.title().replace("_", "")
    return f"api {key}"
