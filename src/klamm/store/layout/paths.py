"""Paths of the store: Kafka's in ZooKeeper, and klamm's own below `/klamm`.

The nodes of access control lists and delegation tokens are in `acls` and `tokens`. Left out: those
of the migration to KRaft, and of consumers before 0.9, of which only the root is made because Kafka
makes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from klamm.model.names import BrokerId, TopicPartition

CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"  # its version is the fencing token

BROKER_IDS: Final = "/brokers/ids"
BROKER_SEQUENCE: Final = "/brokers/seqid"  # a set's version, plus a base, is a generated broker id
TOPICS: Final = "/brokers/topics"

CONFIG: Final = "/config"
TOPIC_CONFIGS: Final = "/config/topics"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_CHANGE_PREFIX: Final = "/config/changes/config_change_"

DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION: Final = "/admin/preferred_replica_election"

ISR_CHANGES: Final = "/isr_change_notification"
ISR_CHANGE_PREFIX: Final = "/isr_change_notification/isr_change_"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX: Final = "/log_dir_event_notification/log_dir_event_"

CLUSTER_ID: Final = "/cluster/id"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
FEATURE: Final = "/feature"

# klamm's own: copies that an operator gave up while their broker was away. Kafka ignores it.
FORGOTTEN: Final = "/klamm/forgotten"
# Also ours: klamm's settings of all brokers. Tools of Kafka fail on names they do not know.
OWN_BROKER_CONFIG: Final = "/klamm/config/brokers"
# Also ours: what brokers show each other that they know.
CLUSTER_SECRET: Final = "/klamm/secret"
# And this one is there while a ZooKeeper is being filled from an export: no broker starts on it.
IMPORT_MARK: Final = "/klamm.import"

# What every broker makes sure of when it starts; their parents come with them.
ROOTS: Final = (
    "/consumers",
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    TOPIC_CONFIGS,
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
)


def parent(path: str) -> str:
    """The node above this one; "/" for those at the top."""
    return path.rpartition("/")[0] or "/"


def with_parents(paths: Iterable[str]) -> tuple[str, ...]:
    """These paths and all above them, each once and each behind its parent."""
    ordered: dict[str, None] = {}
    for path in paths:
        parts = path.split("/")
        for end in range(2, len(parts) + 1):
            ordered["/".join(parts[:end])] = None
    return tuple(ordered)


def sequence(name: str) -> int:
    """The number that the store put behind a sequential node's name."""
    return int(name[-10:])


def broker_path(broker: BrokerId) -> str:
    """The registration of one broker."""
    return f"{BROKER_IDS}/{broker}"


def topic_path(topic: str) -> str:
    """A topic's id and assignment."""
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    """The parent of a topic's partitions, without data."""
    return f"{TOPICS}/{topic}/partitions"


def partition_path(partition: TopicPartition) -> str:
    """The parent of one partition's state, without data."""
    return f"{TOPICS}/{partition[0]}/partitions/{partition[1]}"


def state_path(partition: TopicPartition) -> str:
    """One partition's leadership."""
    return f"{TOPICS}/{partition[0]}/partitions/{partition[1]}/state"


def delete_topic_path(topic: str) -> str:
    """The request to delete a topic: no data, its being there is the request."""
    return f"{DELETE_TOPICS}/{topic}"


def forgotten_path(broker: BrokerId) -> str:
    """The path of the list of copies that this broker has to drop when it comes back."""
    return f"{FORGOTTEN}/{broker}"
