"""A broker's side of every login: its guards, and its own identity before other brokers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from klamm.broker.clock import Clock
from klamm.broker.identity.counts import LoginCounts
from klamm.broker.identity.credentials import Credentials
from klamm.broker.identity.guards import ListenerGuard
from klamm.broker.identity.login import Desk, Failures, Refuse
from klamm.broker.identity.own_login import LogIn, log_in_as
from klamm.broker.identity.tls import Tls, read_tls, replacement_fault
from klamm.broker.identity.token_keys import TokenKeys, key_source
from klamm.broker.tasks import Tasks
from klamm.client.security import Security
from klamm.model.errors import Refused, UsageError
from klamm.security.listeners.config import ListenerConfig, listener_config
from klamm.security.listeners.endpoints import Listener, SecurityProtocol
from klamm.security.listeners.overrides import ListenerSettings
from klamm.security.sasl.config import SaslSources, sasl_config
from klamm.security.tls.mapping import parse_rules

log = logging.getLogger(__name__)

_RULES: Final = "ssl.principal.mapping.rules"
_HANDLER: Final = "sasl.server.callback.handler.class"
_CLEAR_TEXT: Final = Security()


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """All that guards need besides the settings of their listeners."""

    clock: Clock
    credentials: Credentials
    decoy_key: bytes = field(repr=False)
    failures: Failures
    refuse: Refuse
    cuts_revoked: Callable[[], bool]


class Identity:
    """The guards of one broker's listeners by name; those of PLAINTEXT have none."""

    def __init__(self, inter_broker: Iterable[str]) -> None:
        self.counts = LoginCounts()
        self._between = frozenset(inter_broker)
        self._guards: dict[str, ListenerGuard] = {}
        self._keys: dict[str, TokenKeys] = {}
        self._tasks = Tasks()

    def guard(self, listener: str) -> ListenerGuard | None:
        """The guard of a listener."""
        return self._guards.get(listener)

    def security(self, listener: str) -> Security:
        """The security with which this broker goes to others on this listener."""
        guard = self._guards.get(listener)
        return _CLEAR_TEXT if guard is None else guard.as_client

    async def stop(self) -> None:
        await self._tasks.cancel()

    # Guards

    def make_guards(
        self, listeners: Iterable[Listener], texts: Mapping[str, str], means: Means
    ) -> Mapping[str, ListenerGuard]:
        """Guards for these listeners; `UsageError` where one cannot be had. It reads files."""
        made: dict[str, ListenerGuard] = {}
        for listener in listeners:
            if listener.protocol is SecurityProtocol.PLAINTEXT:
                continue
            guard = self._made(listener, texts, means)
            if isinstance(guard, Refused):
                raise UsageError(f"Listener {listener.name}: {guard.why}")
            made[listener.name] = guard
        return made

    def certificates_end(self) -> dict[str, int]:
        """The end of the certificate that each listener shows, in seconds of Unix."""
        shown = {name: guard.material for name, guard in self._guards.items()}
        return {name: tls.material.ends_s for name, tls in shown.items() if tls is not None}

    async def appoint(self, guards: Mapping[str, ListenerGuard]) -> None:
        """Put guards on duty; what they need to be fetched is fetched from now on."""
        self._guards.update(guards)
        for name in guards.keys() & self._keys.keys():
            keys = self._keys[name]
            await keys.first()
            self._tasks.start(keys.run(), f"token-keys-{name}")

    def dismiss(self, listener: str) -> None:
        """A listener is closed."""
        self._guards.pop(listener, None)

    def _made(
        self, listener: Listener, texts: Mapping[str, str], means: Means
    ) -> ListenerGuard | Refused:
        settings = ListenerSettings(listener.name, listener.protocol, texts)
        between = listener.name in self._between
        tls: Tls | Refused | None = None
        if listener.protocol.is_encrypted:
            tls = read_tls(settings, between_brokers=between)
        if isinstance(tls, Refused):
            return tls
        rules = parse_rules(settings.get(_RULES) or "")
        if isinstance(rules, Refused):
            return rules
        desk: Desk | Refused | None = None
        log_in: LogIn | Refused = _as_it_is
        if listener.protocol.has_sasl:
            desk = self._desk(settings, means)
            if between:
                log_in = log_in_as(settings)
        if isinstance(desk, Refused):
            return desk
        if isinstance(log_in, Refused):
            return log_in
        return ListenerGuard(
            settings, tls=tls, rules=rules, desk=desk, counts=self.counts, log_in=log_in
        )

    def _desk(self, settings: ListenerSettings, means: Means) -> Desk | Refused:
        keys: TokenKeys | None = None
        if settings.get(_HANDLER, "OAUTHBEARER"):
            source = key_source(settings)
            if isinstance(source, Refused):
                return source
            keys = self._keys[settings.listener] = TokenKeys(source, means.clock)
        config = sasl_config(
            settings,
            SaslSources(
                scram=means.credentials,
                decoy_key=means.decoy_key,
                keys=lambda: None if keys is None else keys.keys,
                missed=_forgotten if keys is None else keys.missed,
            ),
        )
        if isinstance(config, Refused):
            return config
        return Desk(
            listener=settings.listener,
            config=config,
            clock=means.clock,
            failures=means.failures,
            counts=self.counts,
            refuse=means.refuse,
            cuts_revoked=means.cuts_revoked,
        )

    # Certificates that change

    def read_stale(self) -> Callable[[], None]:
        """Read what has changed on disk. It reads files; what it returns puts it in force."""
        stale = [g for g in self._guards.values() if g.material is not None and g.material.is_stale]
        found = [(guard, self.read_again(guard, guard.settings)) for guard in stale]

        def put_in_force() -> None:
            for guard, again in found:
                self.renew(guard, guard.settings, again)

        return put_in_force

    def read_again(self, guard: ListenerGuard, settings: ListenerSettings) -> Tls | Refused:
        """The certificates that these settings name, where the listener may have them."""
        between = settings.listener in self._between
        new = read_tls(settings, between_brokers=between)
        if isinstance(new, Refused):
            return new
        assert guard.material is not None, "only a listener with TLS is read again"
        return replacement_fault(guard.material, new, settings, between_brokers=between) or new

    def renew(self, guard: ListenerGuard, settings: ListenerSettings, again: Tls | Refused) -> None:
        """Put certificates in force, or tell why not."""
        name = guard.settings.listener
        if isinstance(again, Refused):
            log.error(
                "new certificates are not taken, and the old ones stay in force",
                extra={"listener": name, "why": again.why},
            )
            return
        guard.renew(again, settings)
        log.info("a listener has new certificates", extra={"listener": name})


def between_brokers(config: ListenerConfig) -> frozenset[str]:
    """The listeners that brokers use among themselves."""
    return frozenset({config.inter_broker, config.controller})


def own_security(texts: Mapping[str, str]) -> Security:
    """The security with which brokers of these settings go to each other. It reads files.

    For the program that runs them: whoever can read their settings can do what they do.
    """
    config = listener_config(texts)
    if isinstance(config, Refused):
        raise UsageError(config.why)
    listener = config.listener(config.inter_broker)
    settings = ListenerSettings(listener.name, listener.protocol, texts)
    bare = Security(protocol=listener.protocol.value)
    if listener.protocol.is_encrypted:
        tls = read_tls(settings, between_brokers=False)
        if isinstance(tls, Refused):
            raise UsageError(tls.why)
        bare = tls.as_client
    log_in = log_in_as(settings) if listener.protocol.has_sasl else _as_it_is
    if isinstance(log_in, Refused):
        raise UsageError(log_in.why)
    return log_in(bare)


def _as_it_is(bare: Security) -> Security:
    return bare


def _forgotten(_token: str) -> None:
    pass
