"""Builds the parts of a broker, in order, and connects them."""

from __future__ import annotations

from pathlib import Path

from klamm.broker.access.access import Access
from klamm.broker.access.lists import Lists
from klamm.broker.access.tokens import Tokens
from klamm.broker.admin.auto_creation import AutoCreation
from klamm.broker.admin.dynamic_config import DynamicConfig
from klamm.broker.admin.policies import Policies
from klamm.broker.admin.topic_admin import TopicAdmin
from klamm.broker.clock import Clock
from klamm.broker.controller_channel import ControllerChannel
from klamm.broker.coordinators.replicated import Coordinators
from klamm.broker.fetching.fetch_sessions import FetchSessions
from klamm.broker.foreigners import Foreigners
from klamm.broker.ground import Ground
from klamm.broker.ledger.ledger_topic import LedgerTopic
from klamm.broker.metadata_cache import MetadataCache
from klamm.broker.metrics import BrokerMetrics
from klamm.broker.net.peers import Peers, Ways
from klamm.broker.parts import Parts
from klamm.broker.producer_ids import ProducerIds
from klamm.broker.quotas.quotas import Quotas
from klamm.broker.quotas.throttles import Throttles
from klamm.broker.replicas.fetchers import Fetchers
from klamm.broker.replicas.hosting import Hosting
from klamm.broker.replicas.proposals import Proposals
from klamm.broker.replicas.relocations import Relocations
from klamm.broker.replicas.replicas import ReplicaManager
from klamm.broker.seat import Seat
from klamm.broker.storage.logs import Logs
from klamm.broker.term.controlling import ControllerShell
from klamm.broker.troubles import Troubles
from klamm.broker.workers import Workers
from klamm.model.names import TopicPartition
from klamm.model.settings import BrokerSettings, TopicSettings
from klamm.protocol.bounds import Bounds


def lay_ground(
    seat: Seat,
    *,
    settings: BrokerSettings,
    data_dir: Path,
    clock: Clock,
    workers: Workers,
    access: Access,
) -> Ground:
    """The first stage; `dynamic_config` and `lists` are still to be loaded."""
    metadata = MetadataCache()
    ways = Ways(seat.listeners.inter_broker, seat.listeners.controller)
    peers = Peers(seat, metadata, ways, seat.identity.security)
    quotas = Quotas(clock.elapsed_ms)
    throttles = Throttles(seat.id, clock.elapsed_ms)
    throttles.take_rate(settings)
    dynamic_config = DynamicConfig(seat, quotas, clock, settings)
    dynamic_config.on_topic.append(throttles.take_topic)
    dynamic_config.on_broker.append(throttles.take_rate)
    return Ground(
        seat=seat,
        data_dir=data_dir,
        clock=clock,
        metadata=metadata,
        metrics=BrokerMetrics(is_timing=settings.int("klamm.metrics.port") >= 0),
        quotas=quotas,
        throttles=throttles,
        bounds=_bounds_of(settings),
        dynamic_config=dynamic_config,
        access=access,
        tokens=Tokens(seat, clock, settings),
        lists=_lists(seat, clock, access),
        workers=workers,
        troubles=Troubles(clock.elapsed_ms),
        peers=peers,
        foreigners=Foreigners(seat, clock),
        channel=ControllerChannel(metadata, peers, lambda: f"broker-{seat.id}"),
    )


def _lists(seat: Seat, clock: Clock, access: Access) -> Lists | None:
    if access.lists is None:
        return None
    return Lists(seat, clock, access.lists, access.lists_changed)


def build(ground: Ground, logs: Logs, policies: Policies, topics_at_start: frozenset[str]) -> Parts:
    """All parts of a broker whose settings are loaded and whose logs are open."""
    hosting = _host(ground, logs, topics_at_start)
    controller = ControllerShell(ground)
    admin = TopicAdmin(ground, controller, policies)
    auto_creation = AutoCreation(ground, admin, controller)
    producer_ids = ProducerIds(ground.channel, ground.id, lambda: ground.epoch)
    parts = Parts(
        **hosting.inherited(),
        relocations=Relocations(hosting),
        sessions=FetchSessions(hosting),
        producer_ids=producer_ids,
        coordinators=Coordinators(hosting, producer_ids),
        controller=controller,
        policies=policies,
        admin=admin,
        auto_creation=auto_creation,
        ledger_topic=LedgerTopic(
            ground,
            controller.ledger,
            ground.data_dir,
            auto_creation.create_internal_topic,
            newest_epoch=lambda: hosting.replicas.controller_epoch,
        ),
    )
    _connect(parts)
    return parts


def _host(ground: Ground, logs: Logs, topics_at_start: frozenset[str]) -> Hosting:
    proposals = Proposals(ground)
    fetchers = Fetchers(ground)
    replicas = ReplicaManager(ground, logs, fetchers, proposals, topics_at_start)
    return Hosting(
        **ground.inherited(), logs=logs, proposals=proposals, fetchers=fetchers, replicas=replicas
    )


def _connect(parts: Parts) -> None:
    """Let those hear of changes who act on them."""

    def metadata_changed(removed: frozenset[TopicPartition]) -> None:
        topics = parts.metadata.snapshot.topics.keys()
        parts.sessions.keep_only(parts.metadata.snapshot.brokers.keys())
        parts.ledger_topic.metadata_changed()
        if removed:
            gone = {partition.topic for partition in removed} - topics
            parts.auto_creation.topics_removed(gone)
            for topic in gone:
                parts.dynamic_config.forget(topic)
            parts.coordinators.partitions_removed(removed)

    def topic_settings_changed(topic: str, settings: TopicSettings) -> None:
        parts.replicas.reconfigure(topic, settings)
        parts.controller.topic_settings_changed(topic, settings.overrides)

    def broker_settings_changed(settings: BrokerSettings) -> None:
        parts.replicas.reconfigure_all(parts.dynamic_config.topic)
        for directory in parts.logs.directories:
            directory.delete_delay_ms = settings.int("log.segment.delete.delay.ms")
        parts.controller.broker_settings_changed()
        parts.ledger_topic.wake()

    parts.replicas.on_metadata.append(metadata_changed)
    parts.replicas.on_led.append(parts.sessions.led)
    parts.replicas.renaming.on_renamed.append(parts.sessions.close)
    parts.replicas.on_role.append(parts.relocations.resume)
    parts.dynamic_config.on_topic.append(topic_settings_changed)
    parts.dynamic_config.on_broker.append(broker_settings_changed)


def _bounds_of(settings: BrokerSettings) -> Bounds:
    """The limits for requests to a broker with these settings."""
    return Bounds(
        frame_bytes=settings.int("socket.request.max.bytes"),
        body_bytes=settings.int("klamm.request.max.bytes"),
        private_bytes=settings.int("klamm.private.request.max.bytes"),
        items=settings.int("klamm.request.max.items"),
    )
