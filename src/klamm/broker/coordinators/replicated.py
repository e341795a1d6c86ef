"""The journal of the coordinators on this broker's replicas, and how they hear of leaderships."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Final

from klamm.broker.coordinators.allowance import Allowance
from klamm.broker.coordinators.consumer_groups import ClusterTopics
from klamm.broker.coordinators.groups import GroupCoordinator
from klamm.broker.coordinators.journal import AppendResult
from klamm.broker.coordinators.links import Links
from klamm.broker.coordinators.markers import MarkerSender
from klamm.broker.coordinators.transactions import TransactionCoordinator
from klamm.broker.coordinators.verification import PartitionsQuestion, Verdicts, Verifier
from klamm.broker.net.turns import Turn
from klamm.broker.producer_ids import ProducerIds
from klamm.broker.replicas.acknowledged import acknowledged
from klamm.broker.replicas.hosting import Hosting
from klamm.groups.classic.requests import GroupLimits
from klamm.groups.consumer.events import ConsumerLimits
from klamm.log.partition import StorageTrouble
from klamm.log.writing.append import Appended, AppendRefused
from klamm.model.errors import ErrorCode, KlammError, ProtocolError, StoreUnavailable
from klamm.model.names import CONSUMER_OFFSETS, TRANSACTION_STATE, BrokerId, TopicPartition
from klamm.model.settings import BrokerSettings
from klamm.model.settings.broker_clients import CONSUMER_ASSIGNORS
from klamm.protocol.apis import ApiKey
from klamm.protocol.batch import iter_batches
from klamm.protocol.messages import add_partitions_to_txn, write_txn_markers
from klamm.store import layout

log = logging.getLogger("klamm.groups")

_LOAD_BYTES: Final = 1 << 20
_PRODUCE_VERSION: Final = 11
_MARKERS_VERSION: Final = 1
_VERIFY_VERSION: Final = 5


class ReplicaJournal:
    """Appends to and reads from the partitions led here."""

    def __init__(self, hosting: Hosting) -> None:
        self._hosting = hosting

    async def append(self, partition: TopicPartition, batch: bytes) -> AppendResult:
        """Append and wait for all replicas in sync, for as long as offset commits may take."""
        led = self._hosting.replicas.find_leader(partition)
        if isinstance(led, ErrorCode):
            return AppendResult(led)
        try:
            outcome = led.append(
                memoryview(bytearray(batch)), acks=-1, version=_PRODUCE_VERSION, from_client=False
            )
        except StorageTrouble as trouble:
            self._hosting.storage_trouble(trouble)
            return AppendResult(ErrorCode.KAFKA_STORAGE_ERROR)
        if isinstance(outcome, AppendRefused):
            return AppendResult(outcome.code)
        if not isinstance(outcome, Appended):
            assert isinstance(outcome, ErrorCode), "only clients' batches are looked through"
            return AppendResult(outcome)
        timeout_s = self._hosting.settings.int("offsets.commit.timeout.ms") / 1000
        code = await acknowledged(led, outcome.last_offset + 1, timeout_s)
        return AppendResult(code, outcome.base_offset)

    async def batches(self, partition: TopicPartition) -> AsyncIterator[memoryview]:
        """Everything up to the log's end; others have their turn in between.

        A piece of the log may hold thousands of small batches, each of which somebody looks into.
        """
        led = self._hosting.replicas.find_leader(partition)
        if isinstance(led, ErrorCode) or led.log is None:
            raise ProtocolError(f"{partition} is not led here")
        at, turn = led.log.log_start_offset, Turn()
        # A log may move to another directory meanwhile.
        while (local := led.log) is not None and at < local.log_end_offset:
            found = local.read(
                at, max_bytes=_LOAD_BYTES, upto=local.log_end_offset, at_least_one=True
            )
            if isinstance(found, ErrorCode):
                raise ProtocolError(f"{partition} cannot be read at {at}: {found.name}")
            came = at
            for header, batch in iter_batches(found.read()):
                if turn.is_over:
                    await turn.next()
                if header.last_offset >= at:
                    yield batch
                came = max(came, header.last_offset + 1)
            if came == at:
                return
            at = came


def _group_limits(settings: BrokerSettings) -> GroupLimits:
    return GroupLimits(
        session_timeout_ms_min=settings.int("group.min.session.timeout.ms"),
        session_timeout_ms_max=settings.int("group.max.session.timeout.ms"),
        size_max=min(settings.int("group.max.size"), settings.int("klamm.group.members.max")),
        initial_delay_ms=settings.int("group.initial.rebalance.delay.ms"),
    )


def _consumer_limits(settings: BrokerSettings) -> ConsumerLimits:
    names = settings.list("group.consumer.assignors")
    most = settings.int("klamm.group.members.max")
    return ConsumerLimits(
        size_max=min(settings.int("group.consumer.max.size"), most),
        session_timeout_ms=settings.int("group.consumer.session.timeout.ms"),
        heartbeat_interval_ms=settings.int("group.consumer.heartbeat.interval.ms"),
        assignors=tuple(CONSUMER_ASSIGNORS[name] for name in names),
    )


class Coordinators:
    """Both coordinators of one broker, and what connects them with it."""

    def __init__(self, hosting: Hosting, producer_ids: ProducerIds) -> None:
        settings = hosting.settings
        self._hosting = hosting
        self._producer_ids = producer_ids
        self._marker_links = Links(hosting.peers, f"broker-{hosting.id}-markers")
        self._question_links = Links(hosting.peers, f"broker-{hosting.id}-verification")
        self.journal = ReplicaJournal(hosting)
        allowance = Allowance(
            settings.int("klamm.coordinator.memory.max.bytes"),
            hosting.clock,
            lambda: self.groups.weight + self.transactions.weight,
        )
        self.groups = GroupCoordinator(
            self.journal,
            hosting.clock,
            allowance=allowance,
            limits=_group_limits(settings),
            consumer_limits=_consumer_limits(settings),
            retention_ms=settings.int("offsets.retention.minutes") * 60_000,
            retention_check_ms=settings.int("offsets.retention.check.interval.ms"),
            partition_count=lambda: self._partitions(CONSUMER_OFFSETS),
            cluster_topics=self._cluster_topics,
        )
        self.transactions = TransactionCoordinator(
            self.journal,
            hosting.clock,
            allowance=allowance,
            send_marker=MarkerSender(hosting.metadata, self._send_markers).send,
            fresh_producer_id=self._fresh_producer_id,
            partition_count=lambda: self._partitions(TRANSACTION_STATE),
            timeout_ms_max=settings.int("transaction.max.timeout.ms"),
            expiration_ms=settings.int("transactional.id.expiration.ms"),
            timeout_check_ms=settings.int(
                "transaction.abort.timed.out.transaction.cleanup.interval.ms"
            ),
            expiration_check_ms=settings.int(
                "transaction.remove.expired.transaction.cleanup.interval.ms"
            ),
        )
        self.verifier = Verifier(
            lambda: hosting.id,
            hosting.metadata,
            here=self._verify_here,
            ask=self._send_questions,
        )
        hosting.replicas.on_leader.append(self._leads)
        hosting.replicas.on_follower.append(lambda at, _: self._lost(at))
        hosting.replicas.on_removed.append(self._lost)
        self._gone_partitions: asyncio.Queue[frozenset[TopicPartition]] = asyncio.Queue()

    async def run(self) -> None:
        """Own the coordinators' tasks until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.groups.run())
                tasks.create_task(self.transactions.run())
                while True:
                    tasks.create_task(self._forget(await self._gone_partitions.get()))
        finally:
            await self._marker_links.close()
            await self._question_links.close()

    async def _forget(self, partitions: frozenset[TopicPartition]) -> None:
        """Drop the offsets of partitions that clients no longer see."""
        if self._hosting.settings.bool("klamm.delete.topic.keep.offsets"):
            for topic in {at.topic for at in partitions}:
                await self._until_removed(topic)
        await self.groups.offsets.forget_partitions(partitions)

    async def _until_removed(self, topic: str) -> None:
        """Wait until the deletion of a topic is complete: its node is the last to go."""
        session = self._hosting.session
        changed = asyncio.Event()
        path = layout.topic_path(topic)
        unwatch = session.watch_node(path, changed.set)
        try:
            while await session.get(path) is not None:
                await changed.wait()
                changed.clear()
        except StoreUnavailable:
            log.info("offsets are forgotten early", extra={"topic": topic})
        finally:
            unwatch()

    def _cluster_topics(self) -> ClusterTopics | None:
        metadata = self._hosting.metadata
        return ClusterTopics(metadata.snapshot) if metadata.is_introduced else None

    def _partitions(self, topic: str) -> int:
        # A coordinator leads a partition of the topic, so that the topic is known here or soon will
        # be; until then every key is another's.
        return len(self._hosting.metadata.snapshot.topics.get(topic, ())) or 1

    def _leads(self, partition: TopicPartition, epoch: int) -> None:
        if partition.topic == CONSUMER_OFFSETS:
            self.groups.load(partition, epoch)
        elif partition.topic == TRANSACTION_STATE:
            self.transactions.load(partition, epoch)

    def _lost(self, partition: TopicPartition) -> None:
        if partition.topic == CONSUMER_OFFSETS:
            self.groups.unload(partition)
        elif partition.topic == TRANSACTION_STATE:
            self.transactions.unload(partition)

    def partitions_removed(self, partitions: frozenset[TopicPartition]) -> None:
        """These have just left the metadata."""
        self._gone_partitions.put_nowait(partitions)

    async def _fresh_producer_id(self) -> int:
        taken = await self._producer_ids.take()
        if isinstance(taken, ErrorCode):
            raise KlammError(f"no producer id can be had: {taken.name}")
        return taken

    async def _send_markers(
        self, to: BrokerId, request: write_txn_markers.Request
    ) -> write_txn_markers.Response:
        answer = await self._marker_links.ask(
            to, ApiKey.WRITE_TXN_MARKERS, _MARKERS_VERSION, request
        )
        assert isinstance(answer, write_txn_markers.Response), answer
        return answer

    async def _send_questions(
        self, to: BrokerId, request: add_partitions_to_txn.Request
    ) -> add_partitions_to_txn.Response:
        answer = await self._question_links.ask(
            to, ApiKey.ADD_PARTITIONS_TO_TXN, _VERIFY_VERSION, request
        )
        assert isinstance(answer, add_partitions_to_txn.Response), answer
        return answer

    def _verify_here(self, question: PartitionsQuestion) -> Verdicts:
        return self.transactions.verify(
            question.transactional_id,
            question.producer_id,
            question.epoch,
            question.partitions,
        )
