"""Offers each administrative request as one call.

A call returns the parts of the broker's answer that say something, as the protocol's own classes:
one result a topic, resource or partition, each with its `error_code`. Only a code for the whole
request is raised, as `RequestRefused`. Groups have their own page, `klamm.client.aio.groups`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from klamm.client import requests
from klamm.client.aio.cluster import Client
from klamm.client.aio.connection import Connection
from klamm.client.errors import VersionMismatch, code_of
from klamm.client.metadata import Picture
from klamm.client.requests import ConfigChange, ConfigResource, by_topic, per_partition
from klamm.model.alterations import ConfigResourceType
from klamm.model.errors import ErrorCode, RequestRefused
from klamm.model.names import TopicPartition
from klamm.model.offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from klamm.protocol.apis import ApiKey
from klamm.protocol.fetch import READ_UNCOMMITTED

# Each request imports its message when it is first sent: a command sends one or two, and all of
# them together would take longer to import than to answer.
if TYPE_CHECKING:
    from klamm.protocol.messages import (
        alter_partition_reassignments,
        create_partitions,
        create_topics,
        delete_records,
        delete_topics,
        describe_cluster,
        describe_configs,
        describe_log_dirs,
        describe_producers,
        elect_leaders,
        incremental_alter_configs,
        list_offsets,
        list_partition_reassignments,
        metadata,
    )

PREFERRED_ELECTION: Final = 0
UNCLEAN_ELECTION: Final = 1

Config = Mapping[str, str | None]

__all__ = [
    "EARLIEST",
    "LATEST",
    "MAX_TIMESTAMP",
    "PREFERRED_ELECTION",
    "UNCLEAN_ELECTION",
    "Admin",
    "Config",
    "ConfigChange",
    "ConfigResource",
    "by_topic",
]


class Admin:
    """An operator's view of the cluster that a client is connected to."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def cluster(self) -> describe_cluster.Response:
        """The brokers that are alive, the controller and the cluster's id."""
        from klamm.protocol.messages import describe_cluster

        response: describe_cluster.Response = _unless_refused(
            await self.client.anywhere(ApiKey.DESCRIBE_CLUSTER, describe_cluster.Request())
        )
        return response

    async def topics(
        self, names: Iterable[str] | None = None
    ) -> dict[str, metadata.MetadataResponseTopic]:
        """These topics, or all, as the metadata shows them; nothing is created by looking."""
        names = None if names is None else list(names)
        picture = await self.client.refresh(names)
        return dict(picture.topics) if names is None else _of(picture, names)

    async def topic_by_id(self, topic_id: uuid.UUID) -> metadata.MetadataResponseTopic:
        """The topic with this id, with its error when there is none."""
        from klamm.protocol.messages import metadata

        request = metadata.Request(
            topics=[metadata.MetadataRequestTopic(topic_id=topic_id, name=None)],
            allow_auto_topic_creation=False,
        )
        response: metadata.Response = await self.client.anywhere(ApiKey.METADATA, request)
        return response.topics[0]

    async def create_topics(
        self,
        topics: Sequence[create_topics.CreatableTopic],
        *,
        validate_only: bool = False,
        timeout_s: float | None = None,
    ) -> list[create_topics.CreatableTopicResult]:
        """Creates topics; the answer waits until each has its leaders, or time is over."""
        from klamm.protocol.messages import create_topics

        deadline = self.client.deadline(timeout_s)
        request = create_topics.Request(list(topics), deadline.left_ms, validate_only)
        response: create_topics.Response = await self.client.at_controller(
            ApiKey.CREATE_TOPICS, request, deadline=deadline
        )
        return response.topics

    async def delete_topics(
        self,
        topics: Iterable[str | uuid.UUID],
        *,
        timeout_s: float | None = None,
        patience_ms: int | None = None,
    ) -> list[delete_topics.DeletableTopicResult]:
        """Deletes topics by name or by id.

        The cluster answers when clients no longer see them, REQUEST_TIMED_OUT where that takes
        longer than `patience_ms` (default: the whole timeout).
        """
        deadline = self.client.deadline(timeout_s)
        request = requests.deletion(
            topics, deadline.left_ms if patience_ms is None else patience_ms
        )
        response: delete_topics.Response = await self.client.at_controller(
            ApiKey.DELETE_TOPICS, request, deadline=deadline
        )
        return response.responses

    async def create_partitions(
        self,
        topic: str,
        total: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
        timeout_s: float | None = None,
    ) -> create_partitions.CreatePartitionsTopicResult:
        """Brings a topic up to this number of partitions."""
        from klamm.protocol.messages import create_partitions

        deadline = self.client.deadline(timeout_s)
        placed = None
        if assignments is not None:
            placed = [create_partitions.CreatePartitionsAssignment(list(a)) for a in assignments]
        wanted = create_partitions.CreatePartitionsTopic(topic, total, placed)
        request = create_partitions.Request([wanted], deadline.left_ms, validate_only)
        response: create_partitions.Response = await self.client.at_controller(
            ApiKey.CREATE_PARTITIONS, request, deadline=deadline
        )
        return response.results[0]

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Sequence[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
    ) -> list[describe_configs.DescribeConfigsResult]:
        """Settings in force; those of a broker are asked of that broker."""
        results: list[describe_configs.DescribeConfigsResult] = []
        for node_id, group in _by_home(resources).items():
            request = requests.configs(
                group, names=names, synonyms=synonyms, documentation=documentation
            )
            response = await self._at_home(node_id, ApiKey.DESCRIBE_CONFIGS, request)
            results += response.results
        return results

    async def change_configs(
        self,
        changes: Mapping[ConfigResource, Sequence[ConfigChange]],
        *,
        validate_only: bool = False,
    ) -> list[incremental_alter_configs.AlterConfigsResourceResponse]:
        """Changes single settings and leaves the others alone."""
        results: list[incremental_alter_configs.AlterConfigsResourceResponse] = []
        for node_id, group in _by_home(changes).items():
            request = requests.config_changes(
                {resource: changes[resource] for resource in group}, validate_only=validate_only
            )
            response = await self._at_home(node_id, ApiKey.INCREMENTAL_ALTER_CONFIGS, request)
            results += response.responses
        return results

    async def _at_home(self, node_id: int | None, key: ApiKey, request: Any) -> Any:
        if node_id is None:
            return await self.client.anywhere(key, request)
        return await self.client.at_node(node_id, key, request)

    async def log_dirs(
        self,
        brokers: Iterable[int] | None = None,
        partitions: Iterable[TopicPartition] | None = None,
    ) -> dict[int, list[describe_log_dirs.DescribeLogDirsResult]]:
        """The logs on the disks of these brokers, or of all."""
        ids = list((await self.client.refresh([])).nodes) if brokers is None else list(brokers)
        request = requests.log_dirs(partitions)
        asked = (self.client.at_node(i, ApiKey.DESCRIBE_LOG_DIRS, request) for i in ids)
        answers = await asyncio.gather(*asked)
        return {i: _unless_refused(a).results for i, a in zip(ids, answers, strict=True)}

    async def alter_log_dirs(
        self, broker: int, directories: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, ErrorCode]:
        """Let a broker keep logs in these of its directories; what it says to each.

        The answer to a replica that is not there yet is REPLICA_NOT_AVAILABLE, and is remembered.
        """
        from klamm.protocol.messages import alter_replica_log_dirs

        dirs: defaultdict[str, list[TopicPartition]] = defaultdict(list)
        for partition, path in directories.items():
            dirs[path].append(partition)
        request = alter_replica_log_dirs.Request(
            [
                alter_replica_log_dirs.AlterReplicaLogDir(
                    path,
                    [
                        alter_replica_log_dirs.AlterReplicaLogDirTopic(*topic)
                        for topic in by_topic(partitions).items()
                    ],
                )
                for path, partitions in dirs.items()
            ]
        )
        response = await self.client.at_node(broker, ApiKey.ALTER_REPLICA_LOG_DIRS, request)
        return {
            TopicPartition(topic.topic_name, found.partition_index): code_of(found.error_code)
            for topic in response.results
            for found in topic.partitions
        }

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, int],
        *,
        isolation_level: int = READ_UNCOMMITTED,
        timeout_s: float | None = None,
    ) -> dict[TopicPartition, list_offsets.ListOffsetsPartitionResponse]:
        """The offset for a timestamp, or for LATEST, EARLIEST, MAX_TIMESTAMP, a partition."""
        deadline = self.client.deadline(timeout_s)

        async def ask(
            connection: Connection, part: Mapping[TopicPartition, int]
        ) -> dict[TopicPartition, list_offsets.ListOffsetsPartitionResponse]:
            response = await connection.request(
                ApiKey.LIST_OFFSETS,
                connection.version_of(ApiKey.LIST_OFFSETS),
                requests.offsets(part, isolation_level),
                timeout_s=deadline.left_s(),
            )
            return per_partition(response.topics)

        return await self.client.at_leaders(wanted, ask, deadline=deadline)

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout_s: float | None = None
    ) -> dict[TopicPartition, delete_records.DeleteRecordsPartitionResult]:
        """Deletes what stands before these offsets; -1 means all that is committed."""
        from klamm.protocol.messages import delete_records

        deadline = self.client.deadline(timeout_s)

        async def ask(
            connection: Connection, part: Mapping[TopicPartition, int]
        ) -> dict[TopicPartition, delete_records.DeleteRecordsPartitionResult]:
            topics: defaultdict[str, list[delete_records.DeleteRecordsPartition]] = defaultdict(
                list
            )
            for (topic, partition), offset in part.items():
                topics[topic].append(delete_records.DeleteRecordsPartition(partition, offset))
            wanted = [delete_records.DeleteRecordsTopic(*t) for t in topics.items()]
            response = await connection.request(
                ApiKey.DELETE_RECORDS,
                connection.version_of(ApiKey.DELETE_RECORDS),
                delete_records.Request(wanted, deadline.left_ms),
                timeout_s=deadline.left_s(),
            )
            return per_partition(response.topics)

        return await self.client.at_leaders(before, ask, deadline=deadline)

    async def producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, describe_producers.PartitionResponse]:
        """The producers whose state the leaders of these partitions keep."""
        from klamm.protocol.messages import describe_producers

        deadline = self.client.deadline()

        async def ask(
            connection: Connection, part: Mapping[TopicPartition, None]
        ) -> dict[TopicPartition, describe_producers.PartitionResponse]:
            wanted = [describe_producers.TopicRequest(*t) for t in by_topic(part).items()]
            response = await connection.request(
                ApiKey.DESCRIBE_PRODUCERS,
                connection.version_of(ApiKey.DESCRIBE_PRODUCERS),
                describe_producers.Request(wanted),
                timeout_s=deadline.left_s(),
            )
            return per_partition(response.topics)

        return await self.client.at_leaders(dict.fromkeys(partitions), ask, deadline=deadline)

    async def elect_leaders(
        self,
        kind: int,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> dict[TopicPartition, elect_leaders.PartitionResult]:
        """Has leaders elected, preferred or unclean, for these partitions or wherever needed."""
        from klamm.protocol.messages import elect_leaders

        deadline = self.client.deadline(timeout_s)
        wanted = None
        if partitions is not None:
            wanted = [elect_leaders.TopicPartitions(*t) for t in by_topic(partitions).items()]
        request = elect_leaders.Request(kind, wanted, deadline.left_ms)
        response: elect_leaders.Response = _unless_refused(
            await self.client.at_controller(ApiKey.ELECT_LEADERS, request, deadline=deadline)
        )
        return {
            TopicPartition(topic.topic, result.partition_id): result
            for topic in response.replica_election_results
            for result in topic.partition_result
        }

    async def reassign(
        self,
        replicas: Mapping[TopicPartition, Sequence[int] | None],
        *,
        timeout_s: float | None = None,
    ) -> dict[TopicPartition, alter_partition_reassignments.ReassignablePartitionResponse]:
        """Moves partitions to these brokers; None calls a move off."""
        from klamm.protocol.messages import alter_partition_reassignments

        deadline = self.client.deadline(timeout_s)
        topics: defaultdict[str, list[alter_partition_reassignments.ReassignablePartition]]
        topics = defaultdict(list)
        for (topic, partition), brokers in replicas.items():
            target = None if brokers is None else list(brokers)
            moved = alter_partition_reassignments.ReassignablePartition(partition, target)
            topics[topic].append(moved)
        request = alter_partition_reassignments.Request(
            deadline.left_ms,
            [alter_partition_reassignments.ReassignableTopic(*t) for t in topics.items()],
        )
        response = _unless_refused(
            await self.client.at_controller(
                ApiKey.ALTER_PARTITION_REASSIGNMENTS, request, deadline=deadline
            )
        )
        return per_partition(response.responses)

    async def reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, list_partition_reassignments.OngoingPartitionReassignment]:
        """The moves under way, of these partitions or of all."""
        from klamm.protocol.messages import list_partition_reassignments

        wanted = None
        if partitions is not None:
            wanted = [
                list_partition_reassignments.ListPartitionReassignmentsTopics(*t)
                for t in by_topic(partitions).items()
            ]
        deadline = self.client.deadline()
        request = list_partition_reassignments.Request(deadline.left_ms, wanted)
        response = _unless_refused(
            await self.client.at_controller(
                ApiKey.LIST_PARTITION_REASSIGNMENTS, request, deadline=deadline
            )
        )
        return per_partition(response.topics)

    async def ask_controller(self, key: int, body: Mapping[str, Any]) -> dict[str, Any]:
        """The controller's answer to one of klamm's private requests, unless it refuses."""
        answer = await self.client.ask_controller(key, body)
        if answer["error_code"] != ErrorCode.NONE:
            raise RequestRefused(code_of(answer["error_code"]), answer.get("error_message"))
        return answer

    async def ask_brokers(
        self,
        key: int,
        body: Mapping[str, Any],
        brokers: Iterable[int] | None = None,
        *,
        foreign: set[int] | None = None,
    ) -> dict[int, dict[str, Any]]:
        """The answers of these brokers, or of all, to one of klamm's private requests.

        Brokers that are not klamm's know nothing of it. They are put into `foreign`, and where
        there is none to put them into, `VersionMismatch` names them.
        """
        deadline = self.client.deadline()
        picture = await self.client.refresh([], deadline=deadline)
        ids = list(picture.nodes) if brokers is None else list(brokers)

        async def one(node_id: int) -> dict[str, Any] | None:
            connection = await self.client.to_node(node_id, deadline)
            if key not in connection.versions:
                return None
            return await connection.ask(key, body, timeout_s=deadline.left_s())

        answers = dict(zip(ids, await asyncio.gather(*map(one, ids)), strict=True))
        strange = {node_id for node_id, answer in answers.items() if answer is None}
        if foreign is not None:
            foreign |= strange
        elif strange:
            named = ", ".join(map(str, sorted(strange)))
            raise VersionMismatch(f"not klamm's, and cannot be asked this: broker {named}")
        return {node_id: answer for node_id, answer in answers.items() if answer is not None}


def _of(picture: Picture, names: Iterable[str]) -> dict[str, metadata.MetadataResponseTopic]:
    return {name: picture.topics[name] for name in names if name in picture.topics}


def _by_home(resources: Iterable[ConfigResource]) -> dict[int | None, list[ConfigResource]]:
    """The resources by the broker that must be asked about them, None for any."""
    homes: defaultdict[int | None, list[ConfigResource]] = defaultdict(list)
    for resource in resources:
        is_broker = resource.type in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)
        homes[int(resource.name) if is_broker and resource.name else None].append(resource)
    return dict(homes)


def _unless_refused(response: Any) -> Any:
    """The response, when its own error code says that there is one."""
    if response.error_code != ErrorCode.NONE:
        message = getattr(response, "error_message", None)
        raise RequestRefused(code_of(response.error_code), message)
    return response
