"""Delegation tokens in the store: this broker's copy of them, and how they are made and ended.

Any broker serves requests about tokens: it first reads what was announced, decides, and writes the
token and its announcement in one step, under the version that it decided upon. The controller
removes those that have expired. Without a secret (`delegation.token.secret.key`) there are none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from klamm.broker.access.announcements import Announcements
from klamm.broker.clock import Clock
from klamm.model.errors import ErrorCode, Refused, StoreUnavailable
from klamm.model.settings import BrokerSettings
from klamm.security.credentials.tokens import (
    Changed,
    DelegationToken,
    Fate,
    TokenSettings,
    TokenStore,
    token_hmac,
)
from klamm.security.secret import Secret
from klamm.store import layout
from klamm.store.port import Create, Delete, Op, Session, SetData

log = logging.getLogger(__name__)

_TRIES: Final = 5
_SECRETS: Final = ("delegation.token.secret.key", "delegation.token.master.key")

Decide = Callable[[TokenStore], Changed | Refused]


class Host(Protocol):
    """The services tokens need of their broker."""

    @property
    def session(self) -> Session: ...


def token_settings(settings: BrokerSettings) -> TokenSettings:
    """The settings about tokens."""
    secret = next(filter(None, map(settings.str, _SECRETS)), None)
    return TokenSettings(
        secret=None if secret is None else Secret(secret),
        max_lifetime_ms=settings.int("delegation.token.max.lifetime.ms"),
        expiry_ms=settings.int("delegation.token.expiry.time.ms"),
    )


class Tokens:
    """The tokens of one broker's cluster."""

    def __init__(self, host: Host, clock: Clock, settings: BrokerSettings) -> None:
        self.settings: Final = token_settings(settings)
        self._host = host
        self._clock = clock
        self._pause_s = settings.int("delegation.token.expiry.check.interval.ms") / 1000
        self._announced = Announcements(layout.TOKEN_CHANGES)
        self._turn = asyncio.Lock()
        self._store = TokenStore(self.settings.secret)
        self._read_in: int | None = None  # the session in which all tokens were read

    def hmac(self, token: DelegationToken) -> bytes:
        """The password of a token."""
        assert self.settings.secret is not None, "without a secret there are no tokens"
        return token_hmac(self.settings.secret, token.id)

    def now_ms(self) -> int:
        """The time that tokens live by."""
        return self._clock.now_ms()

    async def current(self) -> TokenStore:
        """The tokens as they are now."""
        if self.settings.secret is None:
            return self._store
        async with self._turn:
            await self._catch_up()
        return self._store

    async def add(self, token: DelegationToken) -> None:
        """Keep a new token; `StoreUnavailable` where it cannot be known whether it is kept."""
        session = self._host.session
        await session.multis([Create(p)] for p in layout.with_parents(layout.TOKEN_ROOTS))
        made = Create(layout.token_path(token.id), layout.encode_token(token))
        results = await session.multi([made, _announcement(token.id)])
        if not all(result.ok for result in results):
            raise StoreUnavailable(f"token {token.id} could not be kept: {results[0].outcome}")
        log.info("a delegation token was made", extra=_told(token))

    async def change(self, decide: Decide) -> Changed | Refused:
        """Renew or end a token as somebody decides who sees all of them."""
        for _ in range(_TRIES):
            decided = decide(await self.current())
            if isinstance(decided, Refused):
                return decided
            try:
                if await self._write(decided):
                    log.info("a delegation token was %s", decided.fate, extra=_told(decided.token))
                    return decided
            except StoreUnavailable:
                continue  # the next look tells whether it got through
        return Refused("the store is busy or away", ErrorCode.UNKNOWN_SERVER_ERROR)

    async def run(self, is_controller: Callable[[], bool]) -> None:
        """Remove expired tokens now and then, where this broker is the controller."""
        if self.settings.secret is None:
            return
        while True:
            await asyncio.sleep(self._pause_s)
            if is_controller():
                await self.remove_expired()

    async def remove_expired(self) -> None:
        """Remove the tokens whose time is over."""
        try:
            for token in (await self.current()).expired(self.now_ms()):
                await self._write(Changed(token, Fate.REMOVED, 0))
                log.info("a delegation token has expired", extra=_told(token))
            await self._announced.sweep(self._host.session, self.now_ms())
        except StoreUnavailable:
            log.warning("expired tokens cannot be removed now; the next look removes them")

    async def _write(self, changed: Changed) -> bool:
        """Whether a change was stored; one that somebody else's came before is not."""
        session, path = self._host.session, layout.token_path(changed.token.id)
        node = await session.get(path)
        if node is None:
            # Somebody else has removed it, which nobody can undo.
            self._forget(changed.token.id)
            return changed.fate is Fate.REMOVED
        if layout.decode_token(node.data) != self._store.tokens.get(changed.token.id):
            self._read_in = None  # what was decided upon is not what is there
            return False
        version = node.stat.version
        op: Op = Delete(path, version)
        if changed.fate is Fate.WRITTEN:
            op = SetData(path, layout.encode_token(changed.token), version)
        results = await session.multi([op, _announcement(changed.token.id)])
        return all(result.ok for result in results)

    async def _catch_up(self) -> None:
        session = self._host.session
        if self._read_in != session.id:
            await self._announced.skip(session)
            ids = await session.children(layout.TOKENS) or ()
            await self._read(session, ids, {})
            self._read_in = session.id
            return
        told = [layout.decode_token_change(data) for data in await self._announced.news(session)]
        ids = tuple(dict.fromkeys(id for id in told if id is not None))
        if ids:
            await self._read(session, ids, dict(self._store.tokens))

    async def _read(
        self, session: Session, ids: tuple[str, ...], tokens: dict[str, DelegationToken]
    ) -> None:
        nodes = await session.get_many([layout.token_path(id) for id in ids])
        for id, node in zip(ids, nodes, strict=True):
            token = layout.decode_token(node.data) if node is not None else None
            tokens.pop(id, None)
            if token is not None and token.id == id:
                tokens[id] = token
        self._store = TokenStore(self.settings.secret, tokens)

    def _forget(self, id: str) -> None:
        left = {other: token for other, token in self._store.tokens.items() if other != id}
        self._store = TokenStore(self.settings.secret, left)


def _announcement(id: str) -> Create:
    return Create(layout.TOKEN_CHANGE_PREFIX, layout.encode_token_change(id), sequential=True)


def _told(token: DelegationToken) -> dict[str, str]:
    return {"token": token.id, "owner": token.owner.text}
