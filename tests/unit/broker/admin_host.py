"""A broker as far as administration needs one: a real store, real metadata, a clock moved by hand.

The controller's part is played by `announce`: it reads the topics from the store, as the controller
does, and tells the metadata cache who leads them.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace

from klamm.broker.admin.policies import Policies
from klamm.broker.admin.topic_admin import TopicAdmin
from klamm.broker.metadata_cache import MetadataCache
from klamm.broker.net.peers import Peers
from klamm.broker.net.proof import ClusterSecret
from klamm.broker.quotas.quotas import Quotas
from klamm.model.brokers import Endpoint, Registration
from klamm.model.names import LEADER_DURING_DELETE, NO_LEADER, ZERO_ID, BrokerId
from klamm.model.settings import BrokerSettings, TopicSettings
from klamm.protocol.messages import update_metadata as messages
from klamm.store import layout
from klamm.store.embedded import EmbeddedSession, EmbeddedStore
from klamm.store.port import Create


class HandClock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.ms = 1_000_000_000

    def now_ms(self) -> int:
        return self.ms

    def elapsed_ms(self) -> int:
        return self.ms


class Memory:
    """What the controller remembers: here, what the metadata shows."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self.queued: set[str] = set()
        self.leaving: set[str] = set()
        self.is_active = True

    @property
    def topic_names(self) -> Mapping[uuid.UUID, str]:
        return self._metadata.snapshot.topic_names

    def is_queued_for_deletion(self, topic: str) -> bool:
        return topic in self.queued

    def is_leaving(self, topic: str) -> bool:
        return topic in self.leaving

    def is_alive(self, topic: str) -> bool:
        return topic in self._metadata.snapshot.topics and topic not in self.queued

    async def everybody_told(self, within_s: float) -> None:
        """There is nobody else here."""


class TestHost:
    """What every part of administration asks of its broker."""

    __test__ = False

    def __init__(
        self, session: EmbeddedSession, given: Mapping[str, str], racks: Mapping[int, str | None]
    ) -> None:
        self.id = BrokerId(0)
        self.session = session
        self.settings = BrokerSettings.parse(given)
        self.metadata = MetadataCache()
        self.cluster_id, self.secret = "", ClusterSecret(bytes(32))
        self.peers = Peers(self, self.metadata)
        self.clock = HandClock()
        self.quotas = Quotas(self.clock.elapsed_ms)
        self.policies = Policies.of(self.settings)
        self.controller = Memory(self.metadata)
        self.admin = TopicAdmin(self, self.controller, self.policies)
        self.heard: list[object] = []
        self.endpoints = (Endpoint("h", 0),)
        self.seat = SimpleNamespace(doors=None)  # nobody listens
        self._brokers = [
            Registration(id=BrokerId(b), epoch=1, endpoints=(Endpoint("h", b),), rack=rack)
            for b, rack in racks.items()
        ]

    async def register(self) -> None:
        """Put the brokers into the store and into the metadata."""
        for broker in self._brokers:
            data = layout.encode_broker(broker, timestamp_ms=0)
            await self.session.multi([Create(layout.broker_path(broker.id), data)])
        self.tell([])

    def tell(self, topics: list[messages.UpdateMetadataTopicState], controller: int = 0) -> None:
        self.metadata.apply(
            messages.Request(
                controller_id=controller,
                topic_states=topics,
                live_brokers=[
                    messages.UpdateMetadataBroker(
                        id=broker.id,
                        endpoints=[messages.UpdateMetadataEndpoint(broker.id, "h", "PLAINTEXT", 0)],
                        rack=broker.rack,
                    )
                    for broker in self._brokers
                ],
            )
        )

    async def announce(self, *, led: bool = True) -> None:
        """What the controller would tell of the topics that are stored."""
        marked = set(await self.session.children(layout.DELETE_TOPICS) or ())
        states = []
        for topic in await self.session.children(layout.TOPICS) or ():
            node = await self.session.get(layout.topic_path(topic))
            stored = layout.decode_topic(node.data) if node else None
            assert stored is not None, topic
            states.append(
                messages.UpdateMetadataTopicState(
                    topic_name=topic,
                    topic_id=stored.topic_id or ZERO_ID,
                    partition_states=[
                        messages.UpdateMetadataPartitionState(
                            partition_index=number,
                            leader=LEADER_DURING_DELETE
                            if topic in marked
                            else (assignment.replicas[0] if led else NO_LEADER),
                            replicas=list(assignment.replicas),
                        )
                        for number, assignment in stored.assignments.items()
                    ],
                )
            )
        self.tell(states)

    @asynccontextmanager
    async def announcing(self) -> AsyncIterator[None]:
        """Announce whenever the store's topics or markers change."""
        changed = asyncio.Event()
        unwatch = [
            self.session.watch_children(path, changed.set)
            for path in (layout.TOPICS, layout.DELETE_TOPICS)
        ]

        async def run() -> None:
            watched: set[str] = set()
            while True:
                await changed.wait()
                changed.clear()
                for topic in set(await self.session.children(layout.TOPICS) or ()) - watched:
                    watched.add(topic)
                    unwatch.append(self.session.watch_node(layout.topic_path(topic), changed.set))
                await self.announce()

        task = asyncio.create_task(run())
        changed.set()
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            for stop in unwatch:
                stop()

    # What dynamic settings tell their broker

    def topic_settings_changed(self, topic: str, settings: TopicSettings) -> None:
        if topic == "spoilt":
            raise OSError("the disk of this topic is broken")
        self.heard.append((topic, dict(settings.overrides)))

    def broker_settings_changed(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self.heard.append("broker")


def on_a_host(
    test: Callable[[TestHost], Awaitable[None]],
    given: Mapping[str, str] | None = None,
    racks: Mapping[int, str | None] | None = None,
) -> None:
    """Run a test on a host of its own."""

    async def run() -> None:
        store = EmbeddedStore.open(None)
        try:
            session = await store.connect()
            await session.multi([Create(p) for p in layout.with_parents(layout.ROOTS)])
            host = TestHost(session, given or {}, racks or dict.fromkeys(range(3)))
            await host.register()
            await test(host)
        finally:
            await store.close()

    asyncio.run(run())
