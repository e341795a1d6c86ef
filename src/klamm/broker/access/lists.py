"""Access control lists in the store: this broker's copy of them, and how they are changed.

The nodes are Kafka's, so a cluster that comes from there, or is shared with it, keeps its lists. A
node has all entries of one pattern. Whoever changes one announces it in the same step; the other
brokers read the node again when they hear of it, and all nodes now and then, should a word be lost.

A node that cannot be read might hold a denial: until somebody writes it anew, only super users may
do anything to what it is about.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from klamm.broker.access.announcements import Announcements
from klamm.broker.clock import Clock
from klamm.model.errors import ErrorCode, Refused, StoreUnavailable
from klamm.security.authorization.acls import UNREADABLE, Acl, Pattern, PatternType
from klamm.security.authorization.authorizer import Authorizer
from klamm.security.authorization.snapshot import Snapshot
from klamm.store import layout
from klamm.store.port import Create, Delete, Node, Op, Session, SetData, Unwatch

log = logging.getLogger(__name__)

_TRIES: Final = 11
_RECONCILED_S: Final = 3600.0
# ZooKeeper takes no node above a mebibyte.
_NODE_SIZE_MAX: Final = 900 * 1024


class Host(Protocol):
    """The services the lists need of their broker."""

    @property
    def session(self) -> Session: ...


@dataclass(frozen=True, slots=True)
class Edit:
    """The change of one pattern's entries."""

    added: frozenset[Acl] = frozenset()
    removed: frozenset[Acl] = frozenset()

    def of(self, entries: frozenset[Acl]) -> frozenset[Acl]:
        """The entries after it."""
        return (entries | self.added) - self.removed


class Lists:
    """The access control lists of one broker's cluster."""

    def __init__(
        self, host: Host, clock: Clock, authorizer: Authorizer, changed: Callable[[], None]
    ) -> None:
        self._host = host
        self._clock = clock
        self._authorizer = authorizer
        self._changed = changed
        self._literal = Announcements(layout.ACL_CHANGES)
        self._extended = Announcements(layout.EXTENDED_ACL_CHANGES)
        # Reads and writes of this broker do not overtake each other.
        self._turn = asyncio.Lock()
        self._hinted = asyncio.Event()
        self._unwatch: list[Unwatch] = []
        self._following: asyncio.Task[None] | None = None

    @property
    def snapshot(self) -> Snapshot:
        """The lists that hold now."""
        return self._authorizer.snapshot

    async def load(self) -> None:
        """Read everything; before that nobody but super users may do anything."""
        session = self._host.session
        async with self._turn:
            await session.multis([Create(p)] for p in layout.with_parents(layout.ACL_ROOTS))
            await self._literal.skip(session)
            await self._extended.skip(session)
            patterns = await _stored_patterns(session)
            self._replace(Snapshot().replaced(await _read(session, patterns)))

    def follow(self) -> None:
        """Act on changes from now on; again after the session was replaced."""
        self._stop_watching()
        session = self._host.session
        for root in (self._literal.root, self._extended.root):
            self._unwatch.append(session.watch_children(root, self._hinted.set))
        self._hinted.set()
        if self._following is None:
            self._following = asyncio.get_running_loop().create_task(self._follow(), name="lists")

    async def stop(self) -> None:
        """Follow no more changes."""
        self._stop_watching()
        if self._following is not None:
            self._following.cancel()
            with suppress(asyncio.CancelledError):
                await self._following
            self._following = None

    async def catch_up(self) -> None:
        """Read what was announced so far; from then on those changes hold here."""
        session = self._host.session
        async with self._turn:
            named = [layout.decode_acl_change(d) for d in await self._literal.news(session)]
            named += [
                layout.decode_extended_acl_change(d) for d in await self._extended.news(session)
            ]
            if None in named:
                log.warning("an announcement of changed ACLs makes no sense and is skipped")
            patterns = dict.fromkeys(pattern for pattern in named if pattern is not None)
            if patterns:
                self._replace(self.snapshot.replaced(await _read(session, patterns)))

    async def write(self, edits: Mapping[Pattern, Edit]) -> dict[Pattern, Refused]:
        """Change patterns, each for itself; those that could not be, with the reasons."""
        refusals: dict[Pattern, Refused] = {}
        async with self._turn:
            for pattern, edit in edits.items():
                written = await self._write(pattern, edit)
                if isinstance(written, Refused):
                    refusals[pattern] = written
                else:
                    self._replace(self.snapshot.replaced({pattern: written}))
        return refusals

    async def _write(self, pattern: Pattern, edit: Edit) -> frozenset[Acl] | Refused:
        session, path = self._host.session, layout.acl_path(pattern)
        for _ in range(_TRIES):
            node = await session.get(path)
            held = _entries(pattern, node)
            wanted = edit.of(held)
            if wanted == held:
                return held
            data = layout.encode_acls(wanted)
            if len(data) > _NODE_SIZE_MAX:
                return Refused(
                    f"{pattern.type.title} {pattern.name} would have too many ACLs for one node. "
                    "Use a prefixed pattern, or fewer principals"
                )
            announced, about = layout.acl_change(pattern)
            change = _operation(path, node, data if wanted else None)
            try:
                results = await session.multi([change, Create(announced, about, sequential=True)])
            except StoreUnavailable:
                continue  # the next look tells whether it got through
            if all(result.ok for result in results):
                log.info("Updated ACLs for %s %s", pattern.type.title, pattern.name)
                return wanted
        return Refused(
            f"the ACLs of {pattern.type.title} {pattern.name} could not be written: the store is "
            "busy or away. Try again",
            ErrorCode.UNKNOWN_SERVER_ERROR,
        )

    async def _follow(self) -> None:
        while True:
            is_hinted = await self._wait()
            self._hinted.clear()
            session, now_ms = self._host.session, self._clock.now_ms()
            try:
                await (self.catch_up() if is_hinted else self.load())
                await self._literal.sweep(session, now_ms)
                await self._extended.sweep(session, now_ms)
            except StoreUnavailable:
                log.warning("ACLs cannot be read now; a new session will read them again")

    async def _wait(self) -> bool:
        """Until there is a hint, or all lists are to be read again."""
        try:
            async with asyncio.timeout(_RECONCILED_S):
                await self._hinted.wait()
        except TimeoutError:
            return False
        return True

    def _stop_watching(self) -> None:
        for unwatch in self._unwatch:
            unwatch()
        self._unwatch = []

    def _replace(self, snapshot: Snapshot) -> None:
        self._authorizer.replace(snapshot)
        self._changed()


def _operation(path: str, node: Node | None, data: bytes | None) -> Op:
    """The change of one node; without data it goes."""
    if node is None:
        return Create(path, data)
    if data is None:
        return Delete(path, node.stat.version)
    return SetData(path, data, node.stat.version)


async def _stored_patterns(session: Session) -> list[Pattern]:
    found: list[Pattern] = []
    for root, kind in (
        (layout.ACLS, PatternType.LITERAL),
        (layout.PREFIXED_ACLS, PatternType.PREFIXED),
    ):
        for title in await session.children(root) or ():
            resource = layout.acl_type(title)
            if resource is None:
                log.warning("ACLs of an unknown type are left alone", extra={"type": title})
                continue
            names = await session.children(f"{root}/{title}") or ()
            found += [Pattern(resource, name, kind) for name in names]
    return found


async def _read(session: Session, patterns: Iterable[Pattern]) -> dict[Pattern, frozenset[Acl]]:
    wanted = list(patterns)
    nodes = await session.get_many([layout.acl_path(pattern) for pattern in wanted])
    return {p: _entries(p, node) for p, node in zip(wanted, nodes, strict=True)}


def _entries(pattern: Pattern, node: Node | None) -> frozenset[Acl]:
    if node is None:
        return frozenset()
    entries = layout.decode_acls(node.data)
    if entries is None:
        log.error(
            "ACLs cannot be read: nobody but super users may use what they are about",
            extra={"type": pattern.type.title, "resource": pattern.name},
        )
        return UNREADABLE
    return entries
