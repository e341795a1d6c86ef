"""Requests that both drivers send, and what their answers say.

Kafka's requests group by topic what a caller has by partition, and several of them exist in the
form of two ages, of which a message carries both. That is written down here once, without waiting.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from klamm.client.errors import check
from klamm.model.alterations import SettingOperation
from klamm.model.names import ZERO_ID, TopicPartition

# Each request imports its message when it is first sent: a command sends one or two, and all of
# them together would take longer to import than to answer.
if TYPE_CHECKING:
    from klamm.protocol.messages import (
        delete_topics,
        describe_configs,
        describe_log_dirs,
        incremental_alter_configs,
        init_producer_id,
        list_offsets,
        offset_commit,
        offset_fetch,
    )

# From 10 on, commits and offsets have topic ids in place of names. Callers have names.
OFFSETS_BY_NAME: Final = 9
# The last version of Fetch that names topics; later ones need an id.
FETCH_BY_NAME: Final = 12

_TRANSACTION_TIMEOUT_MS: Final = 60_000


class ConfigResource(NamedTuple):
    """The owner of settings; an empty broker name means the default of all brokers."""

    type: int
    name: str


class ConfigChange(NamedTuple):
    """One step of an incremental change of settings."""

    operation: SettingOperation
    name: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """An offset that a group has committed."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers grouped by topic, both in their order."""
    grouped: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        grouped[topic].append(partition)
    return dict(grouped)


def per_partition(topics: Iterable[Any]) -> dict[TopicPartition, Any]:
    """The results of an answer that groups them by topic."""
    return {TopicPartition(t.name, p.partition_index): p for t in topics for p in t.partitions}


def offsets(times: Mapping[TopicPartition, int], isolation_level: int) -> list_offsets.Request:
    """The question for the offset of a time, or of EARLIEST, LATEST or MAX_TIMESTAMP."""
    from klamm.protocol.messages import list_offsets

    topics: defaultdict[str, list[list_offsets.ListOffsetsPartition]] = defaultdict(list)
    for (topic, partition), timestamp in times.items():
        topics[topic].append(list_offsets.ListOffsetsPartition(partition, timestamp=timestamp))
    wanted = [list_offsets.ListOffsetsTopic(*t) for t in topics.items()]
    return list_offsets.Request(-1, isolation_level, wanted)


def log_dirs(partitions: Iterable[TopicPartition] | None) -> describe_log_dirs.Request:
    """The question what of these partitions, or of all, lies on a broker's disks."""
    from klamm.protocol.messages import describe_log_dirs

    if partitions is None:
        return describe_log_dirs.Request(None)
    grouped = by_topic(partitions).items()
    return describe_log_dirs.Request(
        [describe_log_dirs.DescribableLogDirTopic(*t) for t in grouped]
    )


def producer_id() -> init_producer_id.Request:
    """The question for a producer id of one's own, without transactions."""
    from klamm.protocol.messages import init_producer_id

    return init_producer_id.Request(
        transactional_id=None, transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS
    )


def deletion(topics: Iterable[str | uuid.UUID], timeout_ms: int) -> delete_topics.Request:
    """The request to delete topics by name or by id."""
    from klamm.protocol.messages import delete_topics

    states = [
        delete_topics.DeleteTopicState(name=t)
        if isinstance(t, str)
        else delete_topics.DeleteTopicState(None, t)
        for t in topics
    ]
    names = [s.name for s in states if s.name is not None and s.topic_id == ZERO_ID]
    return delete_topics.Request(states, names, timeout_ms)


def configs(
    resources: Iterable[ConfigResource],
    *,
    names: Sequence[str] | None = None,
    synonyms: bool = False,
    documentation: bool = False,
) -> describe_configs.Request:
    """The question for settings in force."""
    from klamm.protocol.messages import describe_configs

    keys = None if names is None else list(names)
    wanted = [describe_configs.DescribeConfigsResource(r.type, r.name, keys) for r in resources]
    return describe_configs.Request(wanted, synonyms, documentation)


def config_changes(
    changes: Mapping[ConfigResource, Sequence[ConfigChange]], *, validate_only: bool = False
) -> incremental_alter_configs.Request:
    """The request to change single settings and leave the others alone."""
    from klamm.protocol.messages import incremental_alter_configs

    wanted = [
        incremental_alter_configs.AlterConfigsResource(
            resource.type,
            resource.name,
            [
                incremental_alter_configs.AlterableConfig(c.name, c.operation, c.value)
                for c in steps
            ],
        )
        for resource, steps in changes.items()
    ]
    return incremental_alter_configs.Request(wanted, validate_only)


def commit(group: str, wanted: Mapping[TopicPartition, Committed]) -> offset_commit.Request:
    """The commit of a simple consumer, which is allowed while the group has no members."""
    from klamm.protocol.messages import offset_commit

    topics: defaultdict[str, list[offset_commit.OffsetCommitRequestPartition]] = defaultdict(list)
    for (topic, partition), committed in wanted.items():
        topics[topic].append(
            offset_commit.OffsetCommitRequestPartition(
                partition,
                committed.offset,
                committed_leader_epoch=committed.leader_epoch,
                committed_metadata=committed.metadata,
            )
        )
    return offset_commit.Request(
        group_id=group,
        topics=[
            offset_commit.OffsetCommitRequestTopic(name=name, partitions=commits)
            for name, commits in topics.items()
        ],
    )


def group_offsets(
    group: str, partitions: Iterable[TopicPartition] | None = None, *, stable: bool = False
) -> offset_fetch.Request:
    """The question what a group has committed, in the form of both ages: one, and a list of one.

    A stable answer waits for the end of transactions that would change it.
    """
    from klamm.protocol.messages import offset_fetch

    if partitions is None:
        of_group = offset_fetch.OffsetFetchRequestGroup(group, topics=None)
        return offset_fetch.Request(groups=[of_group], group_id=group, topics=None)
    grouped = by_topic(partitions)
    new = [
        offset_fetch.OffsetFetchRequestTopics(name=name, partition_indexes=numbers)
        for name, numbers in grouped.items()
    ]
    old = [offset_fetch.OffsetFetchRequestTopic(*t) for t in grouped.items()]
    of_group = offset_fetch.OffsetFetchRequestGroup(group, topics=new)
    return offset_fetch.Request(
        groups=[of_group], group_id=group, topics=old, require_stable=stable
    )


def group_offsets_of(group: str, response: offset_fetch.Response) -> dict[TopicPartition, Any]:
    """The offsets that a group has committed, according to an answer."""
    answer = response.groups[0] if response.groups else response
    check(answer.error_code, f"offsets of group {group}")
    return per_partition(answer.topics)
