"""The controller's requests on their way to the brokers.

One task and one connection for each live broker; requests arrive in order, one at a time, and are
tried again until they are answered or the broker is gone. What waits is merged (`backlog.py`).

The first words of a term are preceded by a roll call: the broker says what it holds, and is told
only what it does not (`controller/roll_call.py`). It is asked while the controller still decides.
One that does not understand, or does not answer in time, is told everything.

Where silent brokers are to be fenced, one that nothing is to be said to is asked something idle, so
that its silence is noticed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol

from klamm.broker.roll_call_form import from_json
from klamm.broker.term.backlog import Backlog
from klamm.broker.term.control_messages import ControlSender, event_of, message_of
from klamm.broker.term.controller_metrics import ControllerMetrics
from klamm.controller import events
from klamm.controller.effects import LeaderAndIsr, Request, UpdateMetadata
from klamm.controller.membership.roll_call import Holdings, left_to_say
from klamm.model.brokers import Registration
from klamm.model.errors import KlammError
from klamm.model.names import BrokerId
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import api_versions
from klamm.protocol.private import PrivateKey

log = logging.getLogger(__name__)

_FENCE_LOOK_S: Final = 10.0
_PAUSE_S_MIN: Final = 0.05
_PAUSE_S_MAX: Final = 1.0
# How long the first words of a term wait for the answer to the roll call.
_ROLL_CALL_S: Final = 5.0
# For how long a broker may leave a request unanswered before an operator hears of it.
_ALERT_S: Final = 30.0
# Merging keeps what waits for a broker as small as the cluster, but for StopReplicas, which are
# not merged. A broker with so many of them waiting is given up: it is told everything anew once it
# answers, so nothing is lost with them.
_STOPS_MAX: Final = 1000
_PROBE: Final = (ApiKey.API_VERSIONS, 0, api_versions.Request())


class Link(Protocol):
    """A connection to a broker."""

    async def request(self, key: Any, version: int, message: Any) -> Any:
        """The answer to one request."""
        ...

    async def ask(self, key: int, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one of klamm's private requests."""
        ...

    async def close(self) -> None: ...


Open = Callable[[Registration], Awaitable[Link]]


class _Channel:
    """The way to one registration of a broker."""

    def __init__(self, broker: Registration, outbox: Outbox) -> None:
        self.broker = broker
        self._outbox = outbox
        self._first = Backlog()  # what a new controller has to say
        self._backlog = Backlog()
        self._held = Holdings()
        self._calls_roll = not outbox.flowing.is_set()  # at the beginning of the term
        self._filled = asyncio.Event()
        self.told = asyncio.Event()  # nothing waits, and nothing waits for an answer
        self.shown = asyncio.Event()  # the same of metadata
        self._link: Link | None = None
        self._is_fenced = False
        self._is_waiting = False  # for the answer to a request

    def put(self, request: Request) -> None:
        self._backlog.add(request)
        self._filled.set()
        self.told.clear()
        if isinstance(request, UpdateMetadata):
            self.shown.clear()
        if self._is_waiting and self._backlog.stops > self._outbox.stops_max and not self._is_own:
            self._give_up()

    def seal(self) -> None:
        """Seals the backlog: only what waits now is compared with the broker's holdings.

        An order that is repeated later in the term is repeated on purpose: to hear which replicas
        are on a disk that has failed since.
        """
        self._first, self._backlog = self._backlog, Backlog()

    def _take(self) -> Request | None:
        while (request := self._first.take()) is not None:
            rest, self._held = left_to_say(request, self._held)
            self._outbox.note_spared(self.broker.id, request, rest)
            if rest is not None:
                return rest
        self._held = Holdings()
        return self._backlog.take()

    @property
    def _is_own(self) -> bool:
        """Whether it leads to the controller's own broker, which is never given up."""
        return self.broker.id == self._outbox.sender.controller

    async def run(self) -> None:
        try:
            if self._calls_roll:
                self._held = await self._call_roll()
            while True:
                await self._outbox.flowing.wait()
                request = self._take()
                if request is None:
                    await self._idle()
                    continue
                await self._say(request)
        finally:
            await self._close()

    async def _say(self, request: Request) -> None:
        response = await self._deliver(message_of(request, self._outbox.sender))
        self._answered()
        if not (self._first.has_metadata or self._backlog.has_metadata):
            self.shown.set()
        event = event_of(request, response)
        if response.error_code:
            log.warning(
                "a broker refused a request of the controller",
                extra={"broker": self.broker.id, "code": response.error_code},
            )
        if event is not None:
            self._outbox.answered(event)

    async def _call_roll(self) -> Holdings:
        """The holdings of the broker; empty unless it reports them."""
        sender, patience_s = self._outbox.sender, self._fence_s or _ROLL_CALL_S
        body = {
            "controller": sender.controller,
            "controller_epoch": sender.epoch,
            "broker_epoch": self.broker.epoch,
        }
        try:
            async with asyncio.timeout(min(patience_s, _ROLL_CALL_S)):
                self._link = await self._outbox.open(self.broker)
                answer = await self._link.ask(PrivateKey.ROLL_CALL, body)
            if not answer.get("error_code"):
                return from_json(answer)
            fault: object = answer.get("error_message")
        except (OSError, TimeoutError, KlammError, EOFError) as failure:
            fault = str(failure) or type(failure).__name__
            await self._close()
        log.info(
            "a broker did not answer the roll call and is told everything",
            extra={"broker": self.broker.id, "fault": fault},
        )
        return Holdings()

    async def _idle(self) -> None:
        """Until there is something to send; meanwhile see now and then that the broker answers."""
        self._filled.clear()
        self.told.set()
        self.shown.set()
        # Looked at now and then even where nobody is fenced: the setting changes while we wait.
        pause_s = self._fence_s / 2 or _FENCE_LOOK_S
        try:
            async with asyncio.timeout(pause_s):
                await self._filled.wait()
        except TimeoutError:
            if self._fence_s:
                await self._deliver(_PROBE)
                self._answered()

    @property
    def _fence_s(self) -> float:
        """The time this broker may be silent; 0 for ever, as for the controller's own."""
        return 0.0 if self._is_own else self._outbox.fence_s()

    async def _deliver(self, message: tuple[Any, int, Any]) -> Any:
        """Send until there is an answer; only the end of the broker or of the term ends it."""
        loop, alarms = asyncio.get_running_loop(), []
        fence_s = self._fence_s
        if fence_s:
            alarms.append(loop.call_later(fence_s, self._give_up))
        alarms.append(loop.call_later(self._outbox.alert_s, self._alert))
        self._is_waiting = True
        try:
            return await self._send_until_answered(message)
        finally:
            self._is_waiting = False
            for alarm in alarms:
                alarm.cancel()

    def _alert(self) -> None:
        log.warning(
            "a broker does not answer the controller and may serve what is out of date",
            extra={"broker": self.broker.id, "silent_s": self._outbox.alert_s},
        )

    def _give_up(self) -> None:
        """Hold the broker to be dead, but keep asking: its answer is how we learn that it is not.

        What waits behind is dropped, for a broker that comes back is told everything anew.
        """
        if self._is_fenced:
            return
        self._is_fenced = True
        self._first, self._backlog = Backlog(), Backlog()
        self._outbox.answered(events.BrokerUnreachable(self.broker.id, self.broker.epoch))

    def _answered(self) -> None:
        if self._is_fenced:
            self._is_fenced = False
            self._outbox.answered(events.BrokerReached(self.broker.id, self.broker.epoch))

    async def _send_until_answered(self, message: tuple[Any, int, Any]) -> Any:
        pause_s = _PAUSE_S_MIN
        while True:
            try:
                async with asyncio.timeout(self._outbox.timeout_s):
                    if self._link is None:
                        self._link = await self._outbox.open(self.broker)
                    return await self._link.request(*message)
            except (OSError, TimeoutError, KlammError, EOFError) as fault:
                log.info(
                    "a request of the controller is tried again",
                    extra={"broker": self.broker.id, "fault": str(fault) or type(fault).__name__},
                )
                await self._close()
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _PAUSE_S_MAX)

    async def _close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()


class Outbox:
    """All channels of one term."""

    def __init__(
        self,
        sender: ControlSender,
        *,
        open: Open,
        answered: Callable[[events.Event], None],
        timeout_s: float = 30.0,
        fence_s: Callable[[], float] = lambda: 0.0,
        alert_s: float = _ALERT_S,
        stops_max: int = _STOPS_MAX,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self.sender = sender
        self.open = open
        self.answered = answered
        self.timeout_s = timeout_s
        self.fence_s = fence_s  # how long a broker may be silent before it is fenced; 0: for ever
        self.alert_s = alert_s
        self.stops_max = stops_max
        self._metrics = metrics or ControllerMetrics()
        self._channels: dict[BrokerId, tuple[_Channel, asyncio.Task[None]]] = {}
        self._failure: asyncio.Queue[BaseException] = asyncio.Queue()
        self.flowing = asyncio.Event()
        self.flowing.set()

    async def watch(self) -> None:
        """Wait for the fault that ends a channel, and raise it: whoever sends on would wait for
        answers that never come."""
        raise await self._failure.get()

    async def delivered(self) -> None:
        """Until every broker has answered all that it was sent."""
        await asyncio.gather(*(channel.told.wait() for channel, _ in self._channels.values()))

    async def shown(self) -> None:
        """Until every broker has answered the metadata that it was sent."""
        await asyncio.gather(*(channel.shown.wait() for channel, _ in self._channels.values()))

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Send nothing meanwhile: what is said in several steps goes out merged.

        It is how a term begins. Brokers met in the meantime are asked what they hold.
        """
        self.flowing.clear()
        try:
            yield
        finally:
            for channel, _ in self._channels.values():
                channel.seal()
            self.flowing.set()

    def note_spared(self, broker: BrokerId, request: Request, rest: Request | None) -> None:
        """Count the orders that a broker did not have to be given again."""
        if isinstance(request, LeaderAndIsr):
            sent_count = len(rest.orders) if isinstance(rest, LeaderAndIsr) else 0
            spared_count = len(request.orders) - sent_count
            self._metrics.orders_spared += spared_count
            log.info(
                "a broker is told what it does not hold",
                extra={"broker": broker, "orders": sent_count, "spared": spared_count},
            )

    async def follow(self, brokers: Mapping[BrokerId, Registration]) -> None:
        """Open a channel to each broker that is new, and drop those whose registration ended."""
        for id, (channel, _) in list(self._channels.items()):
            now = brokers.get(id)
            if now is None or now.epoch != channel.broker.epoch:
                await self._drop(id)
            else:
                channel.broker = now
        for id, broker in brokers.items():
            if id not in self._channels:
                channel = _Channel(broker, self)
                task = asyncio.create_task(channel.run(), name=f"to-broker-{id}")
                task.add_done_callback(self._ended)
                self._channels[id] = (channel, task)

    def send(self, requests: Iterable[Request]) -> None:
        """Put requests on their way, in this order for each broker."""
        for request in requests:
            found = self._channels.get(request.to)
            if found is not None and found[0].broker.epoch == request.broker_epoch:
                found[0].put(request)

    async def close(self) -> None:
        """Drop everything that was not sent."""
        tasks = [task for _, task in self._channels.values()]
        self._channels.clear()
        for task in tasks:  # all of them, before anybody can interrupt the waiting
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        fault = None if task.cancelled() else task.exception()
        if fault is not None:
            self._failure.put_nowait(fault)

    async def _drop(self, id: BrokerId) -> None:
        _, task = self._channels.pop(id)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
