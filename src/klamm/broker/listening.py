"""The listeners of a broker: their addresses, whom they let in, and what others are told.

Listeners come and go while the broker runs, and their certificates change (KIP-226). What would
weaken a listener that is open is refused; what was stored all the same, past the API, is told and
left out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from klamm.broker.clock import Clock
from klamm.broker.identity.credentials import Credentials
from klamm.broker.identity.identity import Identity, Means, between_brokers
from klamm.broker.identity.login import Failures, Refuse
from klamm.broker.net.addresses import reachable
from klamm.broker.net.door import Door
from klamm.broker.net.framing import FrameMemory
from klamm.broker.net.half_open import HalfOpen
from klamm.broker.net.listener import Listener
from klamm.broker.net.listeners import Listeners
from klamm.broker.net.peer import Route
from klamm.broker.parts import Parts
from klamm.broker.quotas.connection_limits import ConnectionLimits
from klamm.broker.quotas.listener_limits import ListenerLimits
from klamm.model.brokers import Endpoint
from klamm.model.errors import ErrorCode, Refused, UsageError
from klamm.model.settings import BrokerSettings
from klamm.security.listeners import endpoints as places
from klamm.security.listeners.config import ADVERTISED, LISTENERS, ListenerConfig, listener_config
from klamm.security.listeners.overrides import ListenerSettings
from klamm.security.listeners.placing import EVERYWHERE, named
from klamm.security.listeners.reconfiguration import ListenersChange, listeners_change
from klamm.security.secret import Secret
from klamm.security.settings.start import check_start

log = logging.getLogger(__name__)

_LOOK_S: Final = 10.0  # between two looks at the files of certificates
_TOKEN_SECRETS: Final = ("delegation.token.secret.key", "delegation.token.master.key")


Announce = Callable[[], Awaitable[None]]


class Listening:
    """The listeners of one broker and their guards."""

    def __init__(
        self, settings: BrokerSettings, host: str, port: int, advertise: str | None
    ) -> None:
        """Says what is wrong with the settings before anything is touched."""
        self._settings = settings
        self._place = (host, port, _advertised_host(settings, host, advertise))
        self._texts = self._with({})
        config = listener_config(self._texts)
        if isinstance(config, Refused):
            raise UsageError(config.why)
        self.config: ListenerConfig = config
        self.identity = Identity(between_brokers(config))
        self.credentials = Credentials(_token_secret(settings))
        self._door = Door(settings)
        self._listeners: Listeners | None = None
        self._opened: _Opened | None = None
        self._hinted = asyncio.Event()

    @property
    def listeners(self) -> Listeners:
        """The listeners of a broker that has opened them."""
        assert self._listeners is not None, "nobody listens yet"
        return self._listeners

    @property
    def is_open(self) -> bool:
        return self._listeners is not None

    async def open(self, parts: Parts, route: Route, refuse: Refuse, memory: FrameMemory) -> None:
        """Listen, with guards; afterwards the seat knows where others are sent."""
        means = _means(parts, self._settings, self.credentials, refuse)
        listeners = self._listeners = self._made(parts, route, memory)
        self._opened = _Opened(parts, means, listeners)
        self._take_stored(parts.settings.own_dynamic)
        try:
            await self._open(self.config.listeners, self._texts)
        except UsageError as fault:
            if not self._take_started_with(fault):
                raise
            await self._open(self.config.listeners, self._texts)
        parts.dynamic_config.on_broker.append(self._settings_changed)
        parts.seat.listeners, parts.seat.doors = self.config, self
        parts.seat.endpoints = advertised(self.config, listeners.ports)

    async def _open(self, listeners: Sequence[places.Listener], texts: Mapping[str, str]) -> None:
        """Open some listeners, all of them or none."""
        opened = self._here
        guards = await opened.parts.in_worker(
            lambda: self.identity.make_guards(listeners, texts, opened.means)
        )
        await self.identity.appoint(guards)
        await opened.listeners.open(listeners)

    @property
    def _here(self) -> _Opened:
        assert self._opened is not None, "nobody listens yet"
        return self._opened

    def _take_stored(self, own: Mapping[str, str]) -> None:
        """Begin with what was set for this broker while it ran before, where that makes sense."""
        texts = self._with(own)
        config = listener_config(texts)
        if isinstance(config, Refused) or config.inter_broker != self.config.inter_broker:
            why = config.why if isinstance(config, Refused) else "another listener between brokers"
            log.error("stored settings of listeners are left out", extra={"why": why})
            return
        self._texts, self.config = texts, config

    def _take_started_with(self, fault: UsageError) -> bool:
        """Go back to what the broker was started with; False where that is what failed."""
        started_with = self._with({})
        if started_with == self._texts:
            return False
        log.error("stored settings of listeners are left out", extra={"why": str(fault)})
        config = listener_config(started_with)
        assert not isinstance(config, Refused), "it was checked when the broker was made"
        self._texts, self.config = started_with, config
        return True

    def _with(self, own: Mapping[str, str]) -> Mapping[str, str]:
        """All texts, with these of the broker's own over those it was started with."""
        return named({**self._settings.static, **own}, *self._place)

    def _made(self, parts: Parts, route: Route, memory: FrameMemory) -> Listeners:
        limits = ConnectionLimits(parts.quotas, lambda: parts.settings)
        half_open = HalfOpen(
            lambda: parts.settings.int("klamm.authentication.pending.max"),
            lambda: parts.settings.int("klamm.authentication.pending.max.per.ip"),
        )

        def make(place: places.Listener, on_room: Callable[[], None]) -> Listener:
            return Listener(
                route,
                name=place.name,
                frame_size_max=parts.bounds,
                memory=memory,
                idle_ms_max=self._settings.int("connections.max.idle.ms"),
                limits=ListenerLimits(
                    limits,
                    place.name,
                    parts.quotas,
                    lambda: parts.settings,
                    is_protected=place.name == self.config.inter_broker
                    and len(self.config.listeners) > 1,
                ),
                is_admitted=self._door.admits,
                on_room=on_room,
                guard=self.identity.guard(place.name),
                half_open=half_open,
                login_s_max=lambda: parts.settings.int("klamm.authentication.timeout.ms") / 1000,
            )

        return Listeners(make, limits)

    # While it runs

    def _settings_changed(self, _: BrokerSettings) -> None:
        self.listeners.let_in()
        self.look_again()

    def look_again(self) -> None:
        """Settings or files may have changed."""
        self._hinted.set()

    async def run(self, announce: Announce) -> None:
        """Put in force what changes: at once where somebody says so, and files now and then."""
        parts = self._here.parts
        while True:
            try:
                async with asyncio.timeout(_LOOK_S):
                    await self._hinted.wait()
            except TimeoutError:
                pass
            self._hinted.clear()
            await self._change(announce)
            put_in_force = await parts.in_worker(self.identity.read_stale)
            put_in_force()

    async def fault(self, own: Mapping[str, str]) -> Refused | None:
        """The reason why this broker cannot have these settings of its own."""
        texts = self._with(own)
        change = listeners_change(self.config, self._texts, texts)
        if isinstance(change, Refused):
            return change
        known = frozenset(check_start(self._texts, is_running=True).refusals)
        found = check_start(texts, is_running=True).refusals
        if wrong := [why for why in found if why not in known]:
            return Refused(wrong[0], ErrorCode.INVALID_CONFIG)
        try:
            await self._here.parts.in_worker(lambda: self._tried(change, texts))
        except UsageError as fault:
            return Refused(str(fault), ErrorCode.INVALID_CONFIG)
        return None

    def _tried(self, change: ListenersChange, texts: Mapping[str, str]) -> None:
        """Read all that a change names, without putting it in force. It reads files."""
        added = [change.config.listener(name) for name in change.added]
        self.identity.make_guards(added, texts, self._here.means)
        for name in change.reloaded:
            guard = self.identity.guard(name)
            if guard is not None:
                again = self.identity.read_again(guard, _settings_of(change, name, texts))
                if isinstance(again, Refused):
                    raise UsageError(again.why)

    async def _change(self, announce: Announce) -> None:
        """Open, close and renew listeners, as far as the settings ask for it now."""
        parts = self._here.parts
        texts = self._with(parts.settings.own_dynamic)
        if texts == self._texts:
            return
        change = listeners_change(self.config, self._texts, texts)
        if isinstance(change, Refused):
            _not_applied(parts, change.why)
            return
        try:
            await self._open([change.config.listener(name) for name in change.added], texts)
        except UsageError as fault:
            _not_applied(parts, str(fault))
            return
        for name in change.reloaded:
            await self._reload(name, _settings_of(change, name, texts))
        await self.listeners.close(change.removed)
        for name in change.removed:
            self.identity.dismiss(name)
        self._texts, self.config = texts, change.config
        parts.seat.listeners = change.config
        endpoints = advertised(change.config, self.listeners.ports)
        if endpoints != parts.seat.endpoints:
            parts.seat.endpoints = endpoints
            await announce()

    async def _reload(self, name: str, settings: ListenerSettings) -> None:
        guard = self.identity.guard(name)
        if guard is None or guard.material is None:
            return
        again = await self._here.parts.in_worker(lambda: self.identity.read_again(guard, settings))
        self.identity.renew(guard, settings, again)


@dataclass(frozen=True, slots=True)
class _Opened:
    """The parts that listeners need once they are opened."""

    parts: Parts
    means: Means
    listeners: Listeners


def _advertised_host(settings: BrokerSettings, host: str, advertise: str | None) -> str:
    """The host that clients of a listener without settings are sent to."""
    if advertise is not None:
        return advertise
    if host in EVERYWHERE and not settings.static.get(LISTENERS):
        return reachable("--advertise HOST", by_name=False)
    return host


def _settings_of(change: ListenersChange, name: str, texts: Mapping[str, str]) -> ListenerSettings:
    return ListenerSettings(name, change.config.listener(name).protocol, texts)


def _not_applied(parts: Parts, why: str) -> None:
    log.error("Per-broker configs of %s could not be applied", parts.id, extra={"why": why})


def advertised(config: ListenerConfig, ports: Mapping[str, int]) -> tuple[Endpoint, ...]:
    """The addresses to hand out, by real ports."""
    host = "" if config.names_every_host else reachable(ADVERTISED, by_name=True)
    return tuple(
        Endpoint(one.host, one.port, one.name, one.protocol.value)
        for one in config.advertised_at(ports, host)
    )


def _token_secret(settings: BrokerSettings) -> Secret | None:
    texts = (settings.static.get(name, "") for name in _TOKEN_SECRETS)
    return next((Secret(text) for text in texts if text), None)


def _means(
    parts: Parts, settings: BrokerSettings, credentials: Credentials, refuse: Refuse
) -> Means:
    clock: Clock = parts.clock
    return Means(
        clock=clock,
        credentials=credentials,
        decoy_key=parts.secret.derived("SCRAM of nobody"),
        failures=Failures(
            clock,
            settings.int("connection.failed.authentication.delay.ms"),
            settings.int("connections.max.idle.ms"),
        ),
        refuse=refuse,
        cuts_revoked=lambda: parts.settings.bool("klamm.revoked.logins.close"),
    )
