"""Topics that come into being because somebody asked for them.

Whichever broker is asked, the controller creates: elsewhere the wish is sent on to it as an
ordinary CreateTopics, in a version from before strict quotas and under the client's own id. So all
brokers share one view of what exists, and of two that want the same name one finds it there.

Wishes for one name that meet on one broker share one attempt. A name that was deleted a moment ago
can be kept in quarantine, because a client that still runs would bring it back at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol

from klamm.broker.admin import topic_admin as admin
from klamm.broker.clock import Clock
from klamm.broker.net.peers import Peers
from klamm.broker.quotas.quotas import QuotaClient, Quotas
from klamm.controller.admission import NewTopic
from klamm.model.brokers import Registration
from klamm.model.errors import ErrorCode, KlammError, Refused
from klamm.model.names import CONSUMER_OFFSETS, KLAMM_LEDGER, TRANSACTION_STATE, name_fault
from klamm.model.settings import BrokerSettings
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import create_topics
from klamm.repeats import limited
from klamm.store import layout

log = limited(logging.getLogger(__name__))

# The last version before strict quotas (KIP-599), and the first in which counts may be left open.
_VERSION: Final = 4
# How long the asking client is kept waiting in the hope of a complete answer.
_VISIBLE_MS: Final = 1000


class AutoCreationHost(admin.TopicAdminHost, Protocol):
    """The services auto-creation needs of its broker."""

    @property
    def quotas(self) -> Quotas: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def peers(self) -> Peers: ...


class ControllerPart(Protocol):
    """The controller's part of this broker, active or not."""

    @property
    def is_active(self) -> bool: ...


async def to_controller(
    peers: Peers, controller: Registration, client_id: str, request: create_topics.Request
) -> create_topics.Response:
    """Ask another broker, over a connection of its own: such wishes are rare."""
    endpoint = controller.endpoint(peers.ways.inter_broker)
    if endpoint is None:
        raise KlammError(f"broker {controller.id} cannot be reached from here")
    connection = await peers.connect(controller.id, endpoint, client_id)
    try:
        response = await connection.request(ApiKey.CREATE_TOPICS, _VERSION, request)
        assert isinstance(response, create_topics.Response), response
        return response
    finally:
        await connection.close()


Forward = Callable[
    [Peers, Registration, str, create_topics.Request], Awaitable[create_topics.Response]
]


class AutoCreation:
    """Creates topics that clients ask for before they exist."""

    def __init__(
        self,
        host: AutoCreationHost,
        admin: admin.TopicAdmin,
        controller: ControllerPart,
        forward: Forward = to_controller,
    ) -> None:
        self._host = host
        self._admin = admin
        self._controller = controller
        self._forward = forward
        self._running: dict[str, asyncio.Future[Refused | None]] = {}
        self._removed_at: dict[str, int] = {}

    def topics_removed(self, topics: Iterable[str]) -> None:
        """These have just left the metadata."""
        now_ms = self._host.clock.now_ms()
        keep_ms = self._quarantine_ms
        if keep_ms == 0:
            return
        self._removed_at = {t: at for t, at in self._removed_at.items() if now_ms - at < keep_ms}
        self._removed_at.update(dict.fromkeys(topics, now_ms))

    async def create(self, topics: Iterable[str], client: QuotaClient) -> dict[str, ErrorCode]:
        """The answer for topics that are not in the metadata; NONE if they are there now."""
        codes: dict[str, ErrorCode] = {}
        wanted: list[str] = []
        for topic in topics:
            code = self._fault(topic, client)
            if code is None:
                wanted.append(topic)
            else:
                codes[topic] = code
        outcomes = await asyncio.gather(*(self._shared(topic, client) for topic in wanted))
        for topic, outcome in zip(wanted, outcomes, strict=True):
            codes[topic] = self._answer(topic, outcome)
        return codes

    async def create_internal_topic(self, topic: str) -> str | None:
        """Make sure of a topic of the brokers' own; why it could not be made, if so."""
        refused = await self._shared(topic, QuotaClient("", ""))
        return None if refused is None or refused.code in _BEING_CREATED else refused.why

    async def close(self) -> None:
        """Give up what is still being created here."""
        running = list(self._running.values())
        for attempt in running:
            attempt.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _fault(self, topic: str, client: QuotaClient) -> ErrorCode | None:
        settings = self._host.settings
        if name_fault(topic) is not None:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        prefixes = settings.list("klamm.auto.create.prefixes")
        allowed = settings.bool("auto.create.topics.enable") and (
            not prefixes or topic.startswith(prefixes)
        )
        if allowed and not self._is_quarantined(topic):
            return None
        if allowed:
            log.warning(
                "a topic deleted a moment ago is asked for",
                extra={"topic": topic, "client": client},
            )
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    @property
    def _quarantine_ms(self) -> int:
        return self._host.settings.int("klamm.auto.create.quarantine.ms")

    def _is_quarantined(self, topic: str) -> bool:
        removed_at = self._removed_at.get(topic)
        return (
            removed_at is not None and self._host.clock.now_ms() - removed_at < self._quarantine_ms
        )

    async def _shared(self, topic: str, client: QuotaClient) -> Refused | None:
        running = self._running.get(topic)
        if running is None:
            running = asyncio.ensure_future(self._create(topic, client))
            self._running[topic] = running
            running.add_done_callback(lambda _: self._running.pop(topic, None))
        # One who gives up waiting must not take the attempt from the others.
        return await asyncio.shield(running)

    async def _create(self, topic: str, client: QuotaClient) -> Refused | None:
        ask = _ask(topic, self._host.settings)
        if self._controller.is_active:
            quota = self._host.quotas.mutations(client, self._host.settings, strict=False)
            (outcome,) = await self._admin.create_topics([ask], quota, timeout_ms=_VISIBLE_MS)
            refused = outcome if isinstance(outcome, Refused) else None
        else:
            refused = await self._send_on(ask, client)
        _tell(topic, client, refused)
        if await self._may_come(topic, refused):
            await self._host.metadata.wait_for(
                lambda snapshot: snapshot.is_led(topic, 1), _VISIBLE_MS
            )
        return refused

    async def _may_come(self, topic: str, refused: Refused | None) -> bool:
        """Whether the topic is on its way. A name that is being deleted is not worth a wait."""
        if refused is None or refused.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            return refused is None or refused.code in _BEING_CREATED
        return await self._host.session.get(layout.delete_topic_path(topic)) is None

    async def _send_on(self, ask: NewTopic, client: QuotaClient) -> Refused | None:
        snapshot = self._host.metadata.snapshot
        controller = snapshot.brokers.get(snapshot.controller_id)
        if controller is None:
            return Refused("there is no controller now", ErrorCode.LEADER_NOT_AVAILABLE)
        timeout_ms = self._host.settings.int("request.timeout.ms")
        request = create_topics.Request([_message(ask)], timeout_ms=_VISIBLE_MS)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                response = await self._forward(
                    self._host.peers, controller, client.client_id, request
                )
        except (OSError, KlammError, TimeoutError) as fault:
            return Refused(f"the controller: {fault}", ErrorCode.LEADER_NOT_AVAILABLE)
        (result,) = response.topics
        if result.error_code == ErrorCode.NONE:
            return None
        return Refused(result.error_message or "", ErrorCode(result.error_code))

    def _answer(self, topic: str, refused: Refused | None) -> ErrorCode:
        if refused is not None and refused.code not in _BEING_CREATED:
            return refused.code
        if self._host.metadata.snapshot.is_led(topic, 1):
            return ErrorCode.NONE
        return ErrorCode.LEADER_NOT_AVAILABLE


# What a client is told of these is to ask again.
_BEING_CREATED: Final = frozenset(
    {
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
    }
)


def _tell(topic: str, client: QuotaClient, refused: Refused | None) -> None:
    """Write down what came of an attempt; clients repeat those that fail many times a second."""
    if refused is None:
        log.info("created a topic unasked", extra={"topic": topic, "client": client})
    elif refused.code not in _BEING_CREATED:
        # By the topic, so that many failures for one are a few lines, and another's still show.
        log.warning(
            "%s cannot be created unasked", topic, extra={"client": client, "why": refused.why}
        )


def _ask(topic: str, settings: BrokerSettings) -> NewTopic:
    if topic == CONSUMER_OFFSETS:
        return NewTopic(
            name=topic,
            partitions=settings.int("offsets.topic.num.partitions"),
            factor=settings.int("offsets.topic.replication.factor"),
            configs=(
                ("cleanup.policy", "compact"),
                ("segment.bytes", settings.text("offsets.topic.segment.bytes")),
                ("compression.type", "producer"),
            ),
        )
    if topic == TRANSACTION_STATE:
        return NewTopic(
            name=topic,
            partitions=settings.int("transaction.state.log.num.partitions"),
            factor=settings.int("transaction.state.log.replication.factor"),
            configs=(
                ("unclean.leader.election.enable", "false"),
                ("compression.type", "uncompressed"),
                ("cleanup.policy", "compact"),
                ("min.insync.replicas", settings.text("transaction.state.log.min.isr")),
                ("segment.bytes", settings.text("transaction.state.log.segment.bytes")),
            ),
        )
    if topic == KLAMM_LEDGER:
        return NewTopic(
            name=topic,
            partitions=1,
            factor=settings.int("klamm.ledger.topic.replication.factor"),
            configs=(
                ("cleanup.policy", "compact"),
                ("min.compaction.lag.ms", settings.text("klamm.ledger.topic.history.ms")),
                ("unclean.leader.election.enable", "false"),
                ("compression.type", "producer"),
            ),
        )
    return NewTopic(name=topic)


def _message(ask: NewTopic) -> create_topics.CreatableTopic:
    return create_topics.CreatableTopic(
        name=ask.name,
        num_partitions=ask.partitions,
        replication_factor=ask.factor,
        configs=[create_topics.CreatableTopicConfig(name, value) for name, value in ask.configs],
    )
