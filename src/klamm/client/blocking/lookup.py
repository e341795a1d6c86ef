"""Questions about topics, offsets, sizes, groups and configs of a cluster. Blocking.

Works on the public API alone, so against any Kafka cluster. Who is asked, and how often, is the
matter of `asking`.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from klamm.client import metadata, requests
from klamm.client.addresses import Address
from klamm.client.blocking.asking import TIMEOUT_MS, Asker
from klamm.client.blocking.wire import lease
from klamm.client.errors import Answered, Unreachable, check
from klamm.client.metadata import Topic
from klamm.client.requests import Committed, ConfigChange, ConfigResource, per_partition
from klamm.model.alterations import ConfigResourceType, SettingOperation
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition
from klamm.model.offsets import EARLIEST, LATEST
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import create_topics, list_groups

_DYNAMIC_TOPIC_CONFIG: Final = 1
_LOOKS: Final = 4  # before a topic is held to be gone


class Lookup(Asker):
    """The look-ups of every kind."""

    def topic(self, name: str) -> Topic | None:
        """A topic that was there, or None when it is gone.

        A cluster that has just started knows nothing of its topics for a moment: so this looks
        more than once before it says so.
        """
        for attempt in range(_LOOKS):
            if attempt:
                time.sleep(self.retry_interval_ms / 1000)
            found = self.view([name]).topics.get(name)
            if found is not None:
                return found
        return None

    def offsets(
        self, times: Mapping[TopicPartition, int], *, committed: bool = False
    ) -> dict[TopicPartition, int]:
        """The first offset at or after each time, or -1; also for the words earliest and latest."""
        return self._again(lambda: self._offsets(times, committed))

    def earliest(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each log."""
        return self.offsets(dict.fromkeys(tps, EARLIEST))

    def latest(
        self, tps: Iterable[TopicPartition], *, committed: bool = False
    ) -> dict[TopicPartition, int]:
        """The end of each log, as readers see it."""
        return self.offsets(dict.fromkeys(tps, LATEST), committed=committed)

    def sizes(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """Bytes of each partition on the broker that holds most of it."""
        return self._again(lambda: self._sizes(list(topics)))

    def commit(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Commits as a simple consumer, which is allowed while the group has no members."""
        if offsets:
            self._again(lambda: self._commit(group, offsets))

    def committed(self, group: str) -> dict[TopicPartition, Committed]:
        """Every offset a group has committed."""
        return self._again(lambda: self._committed(group))

    def groups(self) -> list[str]:
        """Every consumer group of the cluster."""
        return self._again(self._groups)

    def configs(self, topic: str) -> dict[str, str]:
        """The settings of a topic itself."""
        return self._again(lambda: self._configs(topic))

    def setting(self, topic: str, name: str) -> str:
        """The value in force for a topic, wherever it was set."""
        return self._again(lambda: self._described(topic))[name].value or ""

    def inherited(self, topic: str, name: str) -> tuple[str, str]:
        """The value that would be in force if the topic had none: its name there, and its value.

        Nothing where a broker does not tell: of several names those that are not used have none.
        """
        found = self._again(lambda: self._described(topic, synonyms=True))[name].synonyms
        above = [s for s in found if s.source != _DYNAMIC_TOPIC_CONFIG and s.value]
        return (above[0].name, above[0].value) if above else (name, "")

    def producer_id(self) -> tuple[int, int]:
        """A fresh producer id and its epoch."""
        return self._again(self._producer_id)

    def create(
        self, topic: str, partitions: int, *, replicas: int = -1, configs: Mapping[str, str]
    ) -> None:
        """Creates a topic and waits until every partition has a leader."""
        deadline = time.monotonic() + TIMEOUT_MS / 1000
        while True:
            try:
                self._again(lambda: self._create(topic, partitions, replicas, configs))
                break
            except Answered as fault:
                # One of that name that is being deleted is not seen, and gone in a moment.
                exists = fault.code is ErrorCode.TOPIC_ALREADY_EXISTS
                if not exists or topic in self.view([topic]).topics or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        while time.monotonic() < deadline:
            found = self.view([topic]).topics.get(topic)
            if found and len(found.leaders) == partitions and all(found.leaders.values()):
                return
            time.sleep(0.1)
        raise Unreachable(f"topic {topic} was created, but has partitions without a leader")

    def delete(self, topic: str) -> None:
        """Deletes a topic by name."""
        self._again(lambda: self._delete(topic))

    def alter(self, topic: str, configs: Mapping[str, str | None]) -> None:
        """Sets topic configs; None puts the default back."""
        self._again(lambda: self._alter(topic, configs))

    def _offsets(
        self, times: Mapping[TopicPartition, int], committed: bool
    ) -> dict[TopicPartition, int]:
        if not times:
            return {}
        view = self.view(sorted({tp.topic for tp in times}))
        by_leader: defaultdict[Address, dict[TopicPartition, int]] = defaultdict(dict)
        for tp in sorted(times):
            by_leader[view.leader(tp).address][tp] = times[tp]
        found: dict[TopicPartition, int] = {}
        for address, part in by_leader.items():
            with lease(address, self.options) as wire:
                answer = wire.call(ApiKey.LIST_OFFSETS, requests.offsets(part, int(committed)))
            for tp, result in per_partition(answer.topics).items():
                check(result.error_code, f"offsets of {tp}")
                found[tp] = result.offset
        return found

    def _sizes(self, topics: list[str]) -> dict[TopicPartition, int]:
        view = self.view(topics)
        request = requests.log_dirs(tp for t in view.topics.values() for tp in t.partitions)
        found: dict[TopicPartition, int] = {}
        for address in view.brokers.values():
            with lease(address, self.options) as wire:
                answer = wire.call(ApiKey.DESCRIBE_LOG_DIRS, request)
            for result in answer.results:
                for tp, p in per_partition(result.topics).items():
                    found[tp] = max(found.get(tp, 0), p.partition_size)
        return found

    def _coordinator(self, group: str) -> Address:
        request = metadata.coordinator_request(group)
        answer = self._any(lambda wire: wire.call(ApiKey.FIND_COORDINATOR, request))
        return metadata.coordinator_of(group, answer).address

    def _commit(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        request = requests.commit(group, dict(sorted(offsets.items())))
        with lease(self._coordinator(group), self.options) as wire:
            answer = wire.call(ApiKey.OFFSET_COMMIT, request, at_most=requests.OFFSETS_BY_NAME)
        for tp, p in per_partition(answer.topics).items():
            check(p.error_code, f"commit of {tp} by group {group}")

    def _committed(self, group: str) -> dict[TopicPartition, Committed]:
        request = requests.group_offsets(group)
        with lease(self._coordinator(group), self.options) as wire:
            answer = wire.call(ApiKey.OFFSET_FETCH, request, at_most=requests.OFFSETS_BY_NAME)
        return {
            tp: Committed(p.committed_offset, p.committed_leader_epoch, p.metadata or "")
            for tp, p in requests.group_offsets_of(group, answer).items()
            if p.committed_offset >= 0
        }

    def _groups(self) -> list[str]:
        names: set[str] = set()
        for address in self.view([]).brokers.values():
            with lease(address, self.options) as wire:
                answer = wire.call(ApiKey.LIST_GROUPS, list_groups.Request())
            check(answer.error_code, "listing the groups")
            names.update(g.group_id for g in answer.groups)
        return sorted(names)

    def _configs(self, topic: str) -> dict[str, str]:
        return {
            name: c.value
            for name, c in self._described(topic).items()
            if c.config_source == _DYNAMIC_TOPIC_CONFIG and c.value is not None
        }

    def _described(self, topic: str, *, synonyms: bool = False) -> dict[str, Any]:
        request = requests.configs(
            [ConfigResource(ConfigResourceType.TOPIC, topic)], synonyms=synonyms
        )
        answer = self._any(lambda wire: wire.call(ApiKey.DESCRIBE_CONFIGS, request))
        result = answer.results[0]
        check(result.error_code, f"configs of {topic}", result.error_message)
        return {c.name: c for c in result.configs}

    def _producer_id(self) -> tuple[int, int]:
        request = requests.producer_id()
        answer = self._any(lambda wire: wire.call(ApiKey.INIT_PRODUCER_ID, request))
        check(answer.error_code, "a producer id")
        return answer.producer_id, answer.producer_epoch

    def _create(
        self, topic: str, partitions: int, replicas: int, configs: Mapping[str, str]
    ) -> None:
        creatable = create_topics.CreatableTopic(
            name=topic,
            num_partitions=partitions,
            replication_factor=replicas,
            configs=[
                create_topics.CreatableTopicConfig(name=k, value=v) for k, v in configs.items()
            ],
        )
        request = create_topics.Request(topics=[creatable], timeout_ms=TIMEOUT_MS)
        answer = self.ask_controller(ApiKey.CREATE_TOPICS, request)
        check(answer.topics[0].error_code, f"creating {topic}", answer.topics[0].error_message)

    def _delete(self, topic: str) -> None:
        request = requests.deletion([topic], TIMEOUT_MS)
        answer = self.ask_controller(ApiKey.DELETE_TOPICS, request)
        check(answer.responses[0].error_code, f"deleting {topic}")

    def _alter(self, topic: str, configs: Mapping[str, str | None]) -> None:
        changes = [
            ConfigChange(
                SettingOperation.DELETE if value is None else SettingOperation.SET, name, value
            )
            for name, value in configs.items()
        ]
        request = requests.config_changes(
            {ConfigResource(ConfigResourceType.TOPIC, topic): changes}
        )
        answer = self.ask_controller(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)
        result = answer.responses[0]
        check(result.error_code, f"configs of {topic}", result.error_message)
