"""The store inside the process: a tree in memory, made durable by SQLite.

Reads come from memory. Writes queue up; what has queued while one commit runs becomes the next
commit, one SQLite transaction for all of it, in which every multi is judged in its turn and is
atomic for itself. Only when the transaction is on the disk does the tree show it, do callers get
their results and watchers their hints. So a thousand callers share a handful of fsyncs, and nobody
ever acts on a write that a power cut could take back.

All state belongs to one event loop; the only other thread is the one that SQLite runs on.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final, Self

from klamm.model.errors import StoreUnavailable
from klamm.store.database import Database, Rows, rows_of
from klamm.store.port import Hint, Node, Op, Result, SessionState, TreeHint, Unwatch
from klamm.store.tree import Draft, Tree, check_path
from klamm.store.watches import Watches

# One commit takes no more operations than this, so that a flood does not make its own head wait.
_COMMIT_OPS_MAX: Final = 20_000


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class _Write:
    """A multi, or with `ops` None the end of a session, on its way to the disk."""

    session: EmbeddedSession
    ops: Sequence[Op] | None
    done: asyncio.Future[tuple[Result, ...]]
    results: tuple[Result, ...] = ()


class EmbeddedStore:
    """One store; any number of them can live in a process, each on one event loop."""

    def __init__(
        self,
        tree: Tree,
        database: Database | None,
        worker: ThreadPoolExecutor,
        now_ms: Callable[[], int],
    ) -> None:
        self._tree = tree
        self._database = database  # None: nothing outlives the process
        self._worker = worker
        self._now_ms = now_ms
        self._watches = Watches()
        self._queue: deque[_Write] = deque()
        self._pumping = False
        self._session_ids = count(1)
        self._sessions: dict[int, EmbeddedSession] = {}
        self._closed = False
        self.commits_count = 0  # transactions sent to the disk

    @classmethod
    def open(
        cls,
        path: Path | str | None,
        *,
        fsync: bool = True,
        now_ms: Callable[[], int] = _wall_clock_ms,
    ) -> Self:
        """The store in this file, made if there is none; with None it lives in memory only.

        Waits until all nodes are read. Raises UsageError when the file is locked, damaged or cannot
        be written.
        """
        worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="klamm-store")
        if path is None:
            return cls(Tree({}, 0), None, worker, now_ms)
        try:
            tree, database = worker.submit(_open, Path(path), fsync).result()
        except BaseException:
            worker.shutdown()
            raise
        return cls(tree, database, worker, now_ms)

    async def connect(self) -> EmbeddedSession:
        """A new session."""
        if self._closed:
            raise StoreUnavailable("the store is closed")
        session = EmbeddedSession(self, next(self._session_ids))
        self._sessions[session.id] = session
        return session

    async def close(self) -> None:
        """Expire the sessions and let go of the file."""
        if self._closed:
            return
        self._closed = True
        await asyncio.gather(*(session.expire() for session in tuple(self._sessions.values())))
        if self._database is not None:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._worker, self._database.close)
        self._worker.shutdown()

    def submit(
        self, session: EmbeddedSession, ops: Sequence[Op] | None
    ) -> asyncio.Future[tuple[Result, ...]]:
        """Queue a multi, or with None the end of the session."""
        for op in ops or ():
            check_path(op)
        loop = asyncio.get_running_loop()
        write = _Write(session, ops, loop.create_future())
        self._queue.append(write)
        if not self._pumping:
            self._pumping = True
            loop.call_soon(self._pump, loop)
        return write.done

    def _pump(self, loop: asyncio.AbstractEventLoop) -> None:
        """Judge what has queued and send it to the disk as one transaction."""
        draft = Draft(self._tree)
        group: list[_Write] = []
        ops_count = 0
        while self._queue and ops_count < _COMMIT_OPS_MAX:
            write = self._queue.popleft()
            if self._draft(draft, write):
                group.append(write)
                ops_count += len(write.ops or ())
        if self._database is None or not draft.changes:
            self._settle(loop, draft, group, None)
            return
        self.commits_count += 1
        rows = rows_of(draft.changes, self._tree)
        committed = loop.run_in_executor(self._worker, _commit, self._database, rows)
        committed.add_done_callback(lambda done: self._settle(loop, draft, group, done.exception()))

    def _draft(self, draft: Draft, write: _Write) -> bool:
        """Judge one write; False when it is not to be done at all."""
        session = write.session
        if write.ops is None:
            draft.end_session(session.id)
        elif write.done.cancelled():
            return False
        elif session.ended:
            write.done.set_exception(StoreUnavailable("the session has expired"))
            return False
        else:
            write.results = draft.multi(write.ops, owner=session.id, now_ms=self._now_ms())
        return True

    def _settle(
        self,
        loop: asyncio.AbstractEventLoop,
        draft: Draft,
        group: Sequence[_Write],
        failure: BaseException | None,
    ) -> None:
        """The transaction is on the disk, or will never be: show it and tell everybody."""
        if failure is not None:
            draft = self._only_ends(group)
        touched = self._tree.publish(draft.changes)
        self._watches.tell_trees(touched.nodes)
        for hint in self._watches.hints(touched):
            loop.call_soon(hint)
        for write in group:
            if write.done.cancelled():
                continue
            if failure is None or write.ops is None:
                write.done.set_result(write.results)
            else:
                write.done.set_exception(failure)
        if self._queue:
            loop.call_soon(self._pump, loop)
        else:
            self._pumping = False

    def _only_ends(self, group: Sequence[_Write]) -> Draft:
        """A session ends even while the disk refuses: its nodes were never there."""
        draft = Draft(self._tree)
        for write in group:
            if write.ops is None:
                draft.end_session(write.session.id)
        return draft


class EmbeddedSession:
    """One client of an embedded store."""

    def __init__(self, store: EmbeddedStore, session_id: int) -> None:
        self._store = store
        self._id = session_id
        self._closing = False
        self._listeners: list[Callable[[SessionState], None]] = []
        self.ended = False  # nothing it still has queued is to be done

    @property
    def id(self) -> int:
        return self._id

    async def get(self, path: str) -> Node | None:
        (node,) = await self.get_many((path,))
        return node

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        self._check()
        found = map(self._store._tree.entries.get, paths)
        return [None if entry is None else Node(entry.data, entry.stat) for entry in found]

    async def children(self, path: str) -> tuple[str, ...] | None:
        self._check()
        return self._store._tree.children(path)

    async def multi(self, ops: Sequence[Op]) -> tuple[Result, ...]:
        self._check()
        return await self._store.submit(self, ops)

    async def multis(self, groups: Iterable[Sequence[Op]]) -> list[tuple[Result, ...]]:
        self._check()
        return await asyncio.gather(*[self._store.submit(self, ops) for ops in groups])

    def watch_node(self, path: str, hint: Hint) -> Unwatch:
        self._check()
        return self._store._watches.add_node(self._id, path, hint)

    def watch_children(self, path: str, hint: Hint) -> Unwatch:
        self._check()
        return self._store._watches.add_children(self._id, path, hint)

    def watch_tree(self, path: str, hint: TreeHint) -> Unwatch:
        self._check()
        return self._store._watches.add_tree(self._id, path, hint)

    def watch_state(self, hear: Callable[[SessionState], None]) -> Unwatch:
        self._listeners.append(hear)
        return lambda: self._listeners.remove(hear) if hear in self._listeners else None

    async def close(self) -> None:
        """Do what is queued, then end; the ephemeral nodes go at once."""
        await self._end(dropping=False)

    async def expire(self) -> None:
        """What a store does to a session that it heard nothing from."""
        if await self._end(dropping=True):
            self.tell(SessionState.EXPIRED)

    def tell(self, state: SessionState) -> None:
        """Tell those who watch the session of a state; this store itself is never away."""
        for hear in tuple(self._listeners):
            hear(state)

    async def kill(self) -> None:
        """As if the process had died: nothing that is queued is done, nobody is told anything."""
        await self._end(dropping=True)

    async def _end(self, *, dropping: bool) -> bool:
        """End the session; False when it had ended before."""
        first = not self._closing
        self._closing = True
        self.ended = self.ended or dropping
        self._store._watches.remove_session(self._id)
        if first:
            self._store._sessions.pop(self._id, None)
            await self._store.submit(self, None)
        return first

    def _check(self) -> None:
        if self._closing:
            raise StoreUnavailable("the session has ended")


def _open(path: Path, fsync: bool) -> tuple[Tree, Database]:
    database = Database.open(path, fsync=fsync)
    try:
        return database.load(), database
    except BaseException:
        database.close()
        raise


def _commit(database: Database, rows: Rows) -> None:
    database.commit(rows)
