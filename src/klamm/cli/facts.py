"""Gathers the facts about topics from the three requests that know them.

Metadata has leaders and replicas, DescribeConfigs the settings and where each comes from,
ListPartitionReassignments the moves under way. `klamm topics` and `klamm kafka-topics` show the
same facts in different clothes.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from klamm.client.aio.admin import Admin, ConfigResource
from klamm.client.errors import refuse
from klamm.model.alterations import ConfigResourceType
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.protocol.messages import metadata
from klamm.protocol.messages.describe_configs import DescribeConfigsResourceResult
from klamm.protocol.messages.list_partition_reassignments import OngoingPartitionReassignment

Setting = DescribeConfigsResourceResult
SOURCES: Final[Mapping[int, str]] = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
}
TOPIC_OVERRIDE: Final = 1
BROKER_OVERRIDE: Final = 2
CLUSTER_OVERRIDE: Final = 3
BUILT_IN: Final = 5


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """One partition."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def replication_factor(self) -> int:
        """The number of copies there should be; new ones of a running move are not counted."""
        return len(self.replicas) - len(self.adding)


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """One topic; `settings` has every entry that is not Kafka's built-in default."""

    name: str
    id: uuid.UUID
    is_internal: bool
    partitions: tuple[PartitionFacts, ...]
    settings: Sequence[Setting] = ()

    @property
    def replication_factor(self) -> int:
        return self.partitions[0].replication_factor if self.partitions else 0

    @property
    def overrides(self) -> dict[str, str]:
        """The settings of the topic itself."""
        return {s.name: s.value or "" for s in self.settings if s.config_source == TOPIC_OVERRIDE}


_Moves = Mapping[TopicPartition, OngoingPartitionReassignment]


async def list_topics(admin: Admin) -> list[TopicFacts]:
    """Every topic, without settings and moves, sorted by name."""
    return [_topic(topic, {}) for _, topic in sorted((await admin.topics()).items())]


async def describe_topics(admin: Admin, names: Iterable[str]) -> list[TopicFacts]:
    """These topics with all there is to know; raises for one that does not exist."""
    wanted = sorted(set(names))
    if not wanted:
        return []
    found = await admin.topics(wanted)
    for name in wanted:
        code = found[name].error_code if name in found else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        refuse(code, f"topic {name!r}")
    moves = await admin.reassignments()
    settings = await describe_settings(admin, ConfigResourceType.TOPIC, wanted)
    return [_topic(found[name], moves, _not_built_in(settings[name])) for name in wanted]


async def describe_settings(
    admin: Admin, kind: ConfigResourceType, names: Sequence[str], *, synonyms: bool = False
) -> dict[str, list[Setting]]:
    """All settings of these resources, by resource."""
    asked = [ConfigResource(kind, name) for name in names]
    results = await admin.describe_configs(asked, synonyms=synonyms)
    for result in results:
        about = f"{kind.name.lower().replace('_', ' ')} {result.resource_name!r}"
        refuse(result.error_code, about, result.error_message)
    return {r.resource_name: sorted(r.configs, key=lambda entry: entry.name) for r in results}


async def settings_of(admin: Admin, resource: ConfigResource) -> list[Setting]:
    """All settings of one resource."""
    kind = ConfigResourceType(resource.type)
    return (await describe_settings(admin, kind, [resource.name]))[resource.name]


async def known(admin: Admin, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Those of these partitions that exist: asking the leaders of others would take long."""
    wanted = list(partitions)
    found = await admin.topics({tp.topic for tp in wanted}) if wanted else {}
    there = {
        TopicPartition(name, partition.partition_index)
        for name, topic in found.items()
        for partition in topic.partitions
    }
    return [tp for tp in wanted if tp in there]


async def live_brokers(admin: Admin) -> frozenset[int]:
    """The ids of the brokers that are up."""
    return frozenset((await admin.client.refresh([])).nodes)


def _topic(
    topic: metadata.MetadataResponseTopic, moves: _Moves, settings: Sequence[Setting] = ()
) -> TopicFacts:
    name = topic.name or ""
    partitions = tuple(
        _partition(partition, moves.get(TopicPartition(name, partition.partition_index)))
        for partition in sorted(topic.partitions, key=lambda p: p.partition_index)
    )
    return TopicFacts(name, topic.topic_id, topic.is_internal, partitions, settings)


def _partition(
    partition: metadata.MetadataResponsePartition, move: OngoingPartitionReassignment | None
) -> PartitionFacts:
    return PartitionFacts(
        partition.partition_index,
        partition.leader_id,
        partition.leader_epoch,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        tuple(move.adding_replicas) if move else (),
        tuple(move.removing_replicas) if move else (),
    )


def _not_built_in(settings: Iterable[Setting]) -> list[Setting]:
    return [setting for setting in settings if setting.config_source != BUILT_IN]
