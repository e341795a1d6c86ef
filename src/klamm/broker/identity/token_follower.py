"""Follows the delegation tokens in the store.

A change comes with a numbered node that names the token, as with settings; a new session reads all
of them. Without a secret there are no tokens, and nothing is read.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Protocol

from klamm.broker.identity.credentials import Credentials
from klamm.model.errors import StoreUnavailable
from klamm.store import layout
from klamm.store.port import Session, Unwatch

log = logging.getLogger(__name__)


class Host(Protocol):
    """The services this needs of its broker."""

    @property
    def session(self) -> Session: ...


class TokenFollower:
    """Keeps the tokens that logins look up as they are in the store."""

    def __init__(self, host: Host, credentials: Credentials) -> None:
        self._host = host
        self._credentials = credentials
        self._last = -1  # the number of the last change that was read
        self._hinted = asyncio.Event()
        self._unwatch: Unwatch | None = None
        self._following: asyncio.Task[None] | None = None

    async def load(self) -> None:
        """Read all tokens."""
        session = self._host.session
        changes = await session.children(layout.TOKEN_CHANGES) or ()
        self._last = max(map(layout.sequence, changes), default=-1)
        ids = await session.children(layout.TOKENS) or ()
        self._credentials.keep_only_tokens(frozenset(ids))
        await self._read(session, list(ids))

    def follow(self) -> None:
        """Act on changes from now on; again after the session was replaced."""
        if self._unwatch is not None:
            self._unwatch()
        self._unwatch = self._host.session.watch_children(layout.TOKEN_CHANGES, self._hinted.set)
        self._hinted.set()
        if self._following is None:
            loop = asyncio.get_running_loop()
            self._following = loop.create_task(self._follow(), name="delegation tokens")

    async def stop(self) -> None:
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        if self._following is not None:
            self._following.cancel()
            with suppress(asyncio.CancelledError):
                await self._following
            self._following = None

    async def _follow(self) -> None:
        while True:
            await self._hinted.wait()
            self._hinted.clear()
            try:
                await self._act()
            except StoreUnavailable:
                log.warning("tokens cannot be read now; a new session will read them again")

    async def _act(self) -> None:
        session = self._host.session
        names = await session.children(layout.TOKEN_CHANGES) or ()
        new = sorted((n for n in names if layout.sequence(n) > self._last), key=layout.sequence)
        if not new:
            return
        nodes = await session.get_many([f"{layout.TOKEN_CHANGES}/{name}" for name in new])
        told = [layout.decode_token_change(node.data) for node in nodes if node is not None]
        await self._read(session, list(dict.fromkeys(id for id in told if id is not None)))
        self._last = layout.sequence(new[-1])

    async def _read(self, session: Session, ids: list[str]) -> None:
        nodes = await session.get_many([layout.token_path(id) for id in ids])
        for id, node in zip(ids, nodes, strict=True):
            token = layout.decode_token(node.data) if node is not None else None
            if node is not None and (token is None or token.id != id):
                log.warning("a delegation token makes no sense", extra={"path": id})
                token = None
            self._credentials.set_token(id, token)
