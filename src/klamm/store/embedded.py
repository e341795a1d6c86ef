"""The store inside the process: a tree in memory, made durable by SQLite.

Reads come from memory. Writes queue up; what has queued while one commit runs becomes the next
commit, one SQLite transaction for all of it, in which every multi is judged in its turn and is
atomic for itself. Only when the transaction is on the disk does the tree show it, do callers get
their results and watchers their hints. So a thousand callers share a handful of fsyncs, and nobody
ever acts on a write that a power cut could take back.

When the file is lost under the running store, no write is taken any more: what is in memory, all
that was ever acknowledged, goes into a rescue beside the back-ups, and every session lapses, as it
would with a ZooKeeper out of reach. That is for good; `klamm store repair` and a start end it.

A store that was opened for it can have a `Front`, which serves it to other processes: it hands in
writes of its own kind, and hears of everything that was published, in order.

All state belongs to one event loop; the only other thread is the one that SQLite runs on.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final, Self

from klamm.model.errors import StoreUnavailable
from klamm.store import backups
from klamm.store.database import Database, Rows, rows_of, write_copy
from klamm.store.layout.protection import grants
from klamm.store.port import Hint, Node, Op, Result, SessionState, TreeHint, Unwatch
from klamm.store.presence import StoreLost
from klamm.store.tree import Draft, Entry, Tree, check_path
from klamm.store.watches import Watches
from klamm.store.writes import Front, LocalWrite, Write

# One commit takes no more operations than this, so that a flood does not make its own head wait.
_COMMIT_OPS_MAX: Final = 20_000
# Without a file, epochs count the seconds since 2024: 31 bits of them last until 2092.
_EPOCHS_FROM_S: Final = 1_704_067_200
# While nobody writes, the file is looked at so often.
_LOOK_EVERY_S: Final = 1.0

log = logging.getLogger(__name__)


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class EmbeddedStore:
    """One store; any number of them can live in a process, each on one event loop."""

    def __init__(
        self,
        tree: Tree,
        database: Database | None,
        worker: ThreadPoolExecutor,
        now_ms: Callable[[], int],
        path: Path | None = None,
        policy: backups.Policy | None = None,
        *,
        serving: bool = False,
        owner: str = "",
    ) -> None:
        self._tree = tree
        # Whose new nodes are, by a digest's id; '': everybody's.
        self._acl_of = partial(grants, digest_id=owner) if owner else None
        self._database = database  # None: nothing outlives the process
        self._path = path
        self._policy = policy  # None: no back-ups
        self._backed_up_zxid = _newest_zxid(path) if policy is not None and path else -1
        self._next_backup_at = 0.0  # by the loop's clock
        self._next_look: asyncio.TimerHandle | None = None
        self._lost: StoreLost | None = None  # why no write is taken any more
        self._worker = worker
        self._now_ms = now_ms
        self._watches = Watches()
        self._queue: deque[Write] = deque()
        self._is_serving = serving  # ephemeral nodes are written then
        self._front: Front | None = None
        # What ended while the disk refused, and is still in the file.
        self._owed = Rows([], [], 0, [], [])
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
        policy: backups.Policy | None = None,
        serving: bool = False,
        owner: str = "",
    ) -> Self:
        """The store in this file, made if there is none; with None it lives in memory only.

        With a policy, back-ups of it are kept beside it. One that is to be served keeps the
        sessions of other processes over a restart; otherwise those have ended. With an owner, the
        id of a digest, nodes that are made in this process are protected as Kafka protects them.

        Waits until all nodes are read. Raises UsageError when the file is locked, damaged or cannot
        be written.
        """
        worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="klamm-store")
        if path is None:
            return cls(Tree({}, 0), None, worker, now_ms, serving=serving, owner=owner)
        try:
            tree, database = worker.submit(_open, Path(path), fsync, serving).result()
        except BaseException:
            worker.shutdown()
            raise
        return cls(tree, database, worker, now_ms, Path(path), policy, serving=serving, owner=owner)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever written."""
        return self._tree.is_empty

    @property
    def tree(self) -> Tree:
        """The tree that readers see."""
        return self._tree

    async def serve(self, front: Front) -> bytes:
        """Have other processes served by this front; the key for their sessions' passwords.

        Transactions go on in a new epoch, above all that anybody can ever have seen: those of a
        run whose last commits the disk lost, and of a store that was put back from a back-up.
        """
        assert self._is_serving, "the store was not opened to be served"
        assert not self._pumping, "a store is served before it is written to"
        tree = self._tree
        epoch = max((tree.zxid >> 32) + 1, self._now_ms() // 1000 - _EPOCHS_FROM_S)
        tree.zxid = tree.shown_zxid = epoch << 32
        self._session_ids = count((epoch << 24) + 1)
        self._front = front
        if self._database is None:
            return secrets.token_bytes(32)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._worker, self._database.begin_serving, tree.zxid)

    def new_session_id(self) -> int:
        """A number that no session has had before."""
        return next(self._session_ids)

    async def connect(self) -> EmbeddedSession:
        """A new session."""
        if self._closed:
            raise StoreUnavailable("the store is closed")
        if self._lost is not None:
            raise self._lost
        if self._database is not None and self._next_look is None:
            self._next_look = asyncio.get_running_loop().call_later(0, self._look)
        session = EmbeddedSession(self, self.new_session_id())
        self._sessions[session.id] = session
        return session

    async def close(self) -> None:
        """Expire the sessions and let go of the file."""
        if self._closed:
            return
        self._closed = True
        if self._next_look is not None:
            self._next_look.cancel()
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
        write = LocalWrite(session, ops, asyncio.get_running_loop().create_future())
        self.enqueue(write)
        return write.done

    def enqueue(self, write: Write) -> None:
        """Have something written behind all that was handed in before."""
        self._queue.append(write)
        if not self._pumping:
            self._pumping = True
            loop = asyncio.get_running_loop()
            loop.call_soon(self._pump, loop)

    def _pump(self, loop: asyncio.AbstractEventLoop) -> None:
        """Judge what has queued and send it to the disk as one transaction."""
        draft = Draft(self._tree, journals=self._front is not None, acl_of=self._acl_of)
        group: list[Write] = []
        ops_count = 0
        while self._queue and ops_count < _COMMIT_OPS_MAX:
            write = self._queue.popleft()
            if self._draft(draft, write):
                group.append(write)
                ops_count += write.ops_count
        if self._database is None or draft.is_idle:
            self._conclude(loop, draft, group, None)
            return
        self.commits_count += 1
        rows = rows_of(draft, self._tree, with_owned=self._is_serving)
        rows.gone.extend(self._owed.gone)
        rows.sessions_gone.extend(self._owed.sessions_gone)
        committed = loop.run_in_executor(self._worker, _commit, self._database, rows)
        committed.add_done_callback(
            lambda done: self._conclude(loop, draft, group, done.exception())
        )

    def _draft(self, draft: Draft, write: Write) -> bool:
        """Judge one write; False when it is not to be done at all."""
        if self._lost is not None and not write.is_end:
            write.conclude(self._lost)
            return False
        before = self._tree.zxid
        if not write.draft(draft, self._now_ms()):
            return False
        write.zxid = self._tree.zxid if self._tree.zxid != before else 0
        write.events = draft.events
        return True

    def _conclude(
        self,
        loop: asyncio.AbstractEventLoop,
        draft: Draft,
        group: Sequence[Write],
        failure: BaseException | None,
    ) -> None:
        """The transaction is on the disk, or will never be: show it and tell everybody."""
        if failure is not None:
            if isinstance(failure, StoreLost):
                self._lose(loop, failure)
            draft = self._only_ends(group)
        elif not draft.is_idle:
            self._owed = Rows([], [], 0, [], [])
        touched = self._tree.publish(draft)
        self._watches.tell_trees(touched.nodes)
        for hint in self._watches.hints(touched):
            loop.call_soon(hint)
        for write in group:
            write.conclude(failure)
        if self._front is not None:
            self._front.published(group, failure)
        if self._queue:
            loop.call_soon(self._pump, loop)
        else:
            self._pumping = False

    def _look(self) -> None:
        """See whether the file is there, and take a back-up when it is time for one."""
        assert self._database is not None, "a store in memory has no file to look at"
        loop = asyncio.get_running_loop()
        looked = loop.run_in_executor(self._worker, self._keep_safe, loop.time())
        looked.add_done_callback(lambda done: self._looked(loop, done))

    def _looked(self, loop: asyncio.AbstractEventLoop, done: asyncio.Future[None]) -> None:
        if done.cancelled() or self._closed:
            return
        fault = done.exception()
        if isinstance(fault, StoreLost):
            self._lose(loop, fault)
            return
        if fault is not None:
            log.warning("no back-up of the store was taken", extra={"why": str(fault)})
        self._next_look = loop.call_later(_LOOK_EVERY_S, self._look)

    def _keep_safe(self, now_s: float) -> None:
        """Look at the file, and copy it when it changed and the time has come. In the worker."""
        database, path, policy = self._database, self._path, self._policy
        assert database is not None, "a store in memory is not kept safe"
        assert path is not None, "a database has a path"
        database.look()
        if policy is None or policy.keep == 0 or now_s < self._next_backup_at:
            return
        zxid = database.zxid
        if zxid in (0, self._backed_up_zxid):
            return
        self._next_backup_at = now_s + policy.interval_s  # also when it fails
        backups.save(
            database.copy_to,
            backups.directory_of(path),
            zxid=zxid,
            now_ms=self._now_ms(),
            keep=policy.keep,
        )
        self._backed_up_zxid = zxid

    def _lose(self, loop: asyncio.AbstractEventLoop, fault: StoreLost) -> None:
        """Take no writes any more; keep what was acknowledged, and tell everybody."""
        if self._lost is not None:
            return
        self._lost = fault
        entries, zxid = dict(self._tree.entries), self._tree.zxid
        rescued = loop.run_in_executor(self._worker, self._rescue, entries, zxid)
        rescued.add_done_callback(lambda done: self._tell_lost(fault, done))
        for session in tuple(self._sessions.values()):
            session.tell(SessionState.LAPSED)
        if self._front is not None:
            self._front.lost()

    def _rescue(self, entries: dict[str, Entry], zxid: int) -> Path:
        """Write what is in memory to a back-up, and mark the store as lost. In the worker."""
        assert self._path is not None, "only a file can be lost"
        mark = self._path.parent / backups.LOST_MARK
        backups.put_in_place(lambda draft: _write(draft, f"{self._lost}\n"), mark)
        return backups.save(
            lambda draft: write_copy(draft, entries, zxid),
            backups.directory_of(self._path),
            zxid=zxid,
            now_ms=self._now_ms(),
            keep=self._policy.keep if self._policy else 1,
            is_rescue=True,
        )

    def _tell_lost(self, fault: StoreLost, rescued: asyncio.Future[Path]) -> None:
        assert self._path is not None, "only a file can be lost"
        failure = rescued.exception()
        log.critical(
            "the store is lost: no change of topics, settings or leaders is taken any more, while "
            "records go on; stop the cluster, run `klamm store repair --execute` with its --data, "
            "and start it again",
            extra={
                "why": str(fault),
                "data": str(self._path.parent),
                "rescue": str(failure or rescued.result()),
            },
        )

    def _only_ends(self, group: Sequence[Write]) -> Draft:
        """A session ends even while the disk refuses: its nodes go from the file later."""
        draft = Draft(self._tree, journals=self._front is not None)
        for write in group:
            write.events, write.zxid = (), 0
            if write.is_end:
                self._draft(draft, write)
        if self._is_serving:
            rows = rows_of(draft, self._tree, with_owned=True)
            self._owed.gone.extend(rows.gone)
            self._owed.sessions_gone.extend(rows.sessions_gone)
        return draft


class EmbeddedSession:
    """One client of an embedded store."""

    is_near = True

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
        """Ends a session that the store has heard nothing from."""
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


def _open(path: Path, fsync: bool, serving: bool) -> tuple[Tree, Database]:
    database = Database.open(path, fsync=fsync)
    try:
        tree = database.load()
        _end_sessions(tree, database, serving=serving)
        return tree, database
    except BaseException:
        database.close()
        raise


def _end_sessions(tree: Tree, database: Database, *, serving: bool) -> None:
    """Remove what nobody can own any more: of sessions within the last process, or of all."""
    kept = tree.sessions.keys() if serving else frozenset[int]()
    draft = Draft(tree)
    for session in dict.fromkeys((*tree.owners, *tree.sessions)):
        if session not in kept:
            draft.end_session(session)
    if not draft.is_idle:
        database.commit(rows_of(draft, tree, with_owned=True))
        tree.publish(draft)


def _newest_zxid(path: Path) -> int:
    return max((found.zxid for found in backups.find(backups.directory_of(path))), default=-1)


def _write(path: Path, text: str) -> None:
    path.write_text(text)


def _commit(database: Database, rows: Rows) -> None:
    database.commit(rows)
