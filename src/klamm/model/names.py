"""Names of things: ids, partitions, topics."""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple, NewType

BrokerId = NewType("BrokerId", int)

NO_LEADER: Final = BrokerId(-1)
# Only in UpdateMetadata: the topic is being deleted, forget the partition.
LEADER_DURING_DELETE: Final = BrokerId(-2)
# Only in StopReplica: the order overrides whatever leader epoch the receiver knows.
EPOCH_DURING_DELETE: Final = -2
NO_EPOCH: Final = -1

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
KLAMM_LEDGER: Final = "__klamm_ledger"
# Only who calls itself so may write to an internal topic, as in Kafka; and here, only a broker.
INTERNAL_WRITER: Final = "__admin_client"
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, KLAMM_LEDGER})
CLUSTER_METADATA: Final = "__cluster_metadata"

ZERO_ID: Final = uuid.UUID(int=0)
_RESERVED_IDS: Final = frozenset({ZERO_ID, uuid.UUID(int=1)})

TOPIC_NAME_LENGTH_MAX: Final = 249
PARTITION_MAX: Final = (1 << 31) - 1
DIRECTORY_NAME_LENGTH_MAX: Final = 255  # of all file systems that are in use
_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+\Z")


class TopicPartition(NamedTuple):
    """One partition of one topic. A tuple, because a controller holds hundreds of thousands."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Replica(NamedTuple):
    """The copy of one partition on one broker."""

    partition: TopicPartition
    broker: BrokerId

    def __str__(self) -> str:
        return f"{self.partition} on broker {self.broker}"


def is_internal(topic: str) -> bool:
    """Whether clients may not write to this topic themselves."""
    return topic in INTERNAL_TOPICS


def name_fault(topic: str) -> str | None:
    """The reason why this is not a topic name, or None if it is one."""
    if not topic:
        return "Topic name is invalid: the empty string is not allowed"
    if topic in (".", ".."):
        return f"Topic name is invalid: '{topic}' is not allowed"
    if len(topic) > TOPIC_NAME_LENGTH_MAX:
        return (
            f"Topic name is invalid: the length of '{topic[:TOPIC_NAME_LENGTH_MAX]}...' is longer "
            f"than the max allowed length {TOPIC_NAME_LENGTH_MAX}"
        )
    if not _LEGAL_NAME.match(topic):
        return (
            f"Topic name is invalid: {topic!r} contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


def partition_fault(partition: TopicPartition) -> str | None:
    """The reason why no partition can have this name and number, or None if one can.

    Asked of whatever comes from outside: a partition's text is the name of its directory.
    """
    fault = name_fault(partition.topic)
    if fault is not None:
        return fault
    if not 0 <= partition.partition <= PARTITION_MAX:
        return f"{partition.partition} is not a partition's number, which is 0 to {PARTITION_MAX}"
    if len(str(partition)) > DIRECTORY_NAME_LENGTH_MAX:
        return f"{partition} is longer than the {DIRECTORY_NAME_LENGTH_MAX} of a directory's name"
    return None


def partition_faults(partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], str]:
    """Those of many that cannot be partitions, and why; each name is looked at once."""
    faults: dict[tuple[str, int], str] = {}
    known: dict[str, bool] = {}
    for topic, index in partitions:
        if topic not in known:
            # Beside a name near the limit its number may be one digit too many.
            is_short = len(topic) <= DIRECTORY_NAME_LENGTH_MAX - len(f"-{PARTITION_MAX}")
            known[topic] = is_short and name_fault(topic) is None
        if known[topic] and 0 <= index <= PARTITION_MAX:
            continue
        fault = partition_fault(TopicPartition(topic, index))
        if fault is not None:
            faults[topic, index] = fault
    return faults


def collides(one: str, other: str) -> bool:
    """Whether two names would share their metric names, in which '.' and '_' are the same."""
    return one.replace(".", "_") == other.replace(".", "_")


def colliding(topic: str, existing: Iterable[str]) -> list[str]:
    """The existing topics that a new topic of this name would collide with."""
    if "." not in topic and "_" not in topic:
        return []
    return sorted(name for name in existing if name != topic and collides(name, topic))


@lru_cache(maxsize=256)  # all partitions of a topic write the same one
def id_text(topic_id: uuid.UUID) -> str:
    """The 22 characters under which ids are written in JSON and files."""
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode("ascii")


@lru_cache(maxsize=4096)
def id_from_bytes(data: bytes) -> uuid.UUID:
    """An id from its sixteen bytes.

    The same few hundred are in every request of a follower. That they are the same objects, too,
    makes a dictionary find them without a call of their `==`, which is slow.
    """
    return uuid.UUID(bytes=data) if any(data) else ZERO_ID


def id_from_text(text: str) -> uuid.UUID:
    """The inverse of `id_text`."""
    return id_from_bytes(base64.urlsafe_b64decode(text + "=="))


def is_usable_id(topic_id: uuid.UUID) -> bool:
    """Whether a freshly drawn id may be given to a topic: not reserved, not looking like a flag."""
    return topic_id not in _RESERVED_IDS and not id_text(topic_id).startswith("-")
