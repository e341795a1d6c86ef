"""The nodes in memory, and what a multi does to them.

A `Tree` is what readers see. A `Draft` is what the tree will be once the multis it took are
durable: a layer of changes on top, which is put into the tree when they are, or thrown away when
the disk refused. Within a draft every multi is a layer of its own, so that one that fails leaves
nothing behind for the next one to see.

Pure: no clock, no disk, no loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, assert_never

from klamm.model.errors import InvariantBroken
from klamm.store.access import (
    ADMIN,
    CREATE,
    DELETE,
    OPEN,
    READ,
    WRITE,
    Acl,
    Caller,
    ServedCreate,
    ServedOp,
    SetAcl,
    resolved,
)
from klamm.store.child_names import ChildNames
from klamm.store.node_paths import SERVER_NODES, is_rooted, is_servers_own, is_valid
from klamm.store.port import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Op,
    Outcome,
    Result,
    SetData,
    Stat,
)

ROOT: Final = "/"
PERSISTENT: Final = 0  # the owner of nodes that nobody owns
_SHARED_BYTES: Final = 256


class Entry(NamedTuple):
    """A node as the tree holds it."""

    data: bytes | None
    stat: Stat
    children_made: int = 0  # ever: the next sequential child's number, as in ZooKeeper
    pzxid: int = 0  # the transaction that last made or removed a child, or the node itself
    mtime_ms: int = 0
    acl: Acl = OPEN
    aversion: int = 0
    is_container: bool = False  # to go when its last child has gone
    children_count: int = 0  # now; the only one that is not written


Changes = dict[str, Entry | None]  # None: the node is gone


class Event(NamedTuple):
    """One thing that happened to one node, and who may hear of it."""

    kind: int
    path: str
    acl: Acl
    above_acl: Acl = OPEN  # of the parent, where its list of children changed


CREATED, DELETED, DATA_CHANGED, CHILDREN_CHANGED = 1, 2, 3, 4  # ZooKeeper's numbers


@dataclass(slots=True)
class Touched:
    """The paths whose watchers have to be told."""

    # Dicts for sets, because they keep their order: the same writes always give the same hints.
    nodes: dict[str, None] = field(default_factory=dict)
    parents: dict[str, None] = field(default_factory=dict)


class Tree:
    """The tree that readers see."""

    __slots__ = ("_names", "_owned", "containers", "entries", "sessions", "shown_zxid", "zxid")

    def __init__(
        self, entries: dict[str, Entry], zxid: int, sessions: dict[int, int] | None = None
    ) -> None:
        self.entries = entries  # without child counts, which are made here
        self.zxid = zxid  # of the last transaction that was tried
        self.shown_zxid = zxid  # of the last one that readers see
        self.sessions = sessions or {}  # those that outlive the process: their time-outs in ms
        entries.setdefault(ROOT, Entry(b"", Stat(version=0, czxid=0, mzxid=0, ctime_ms=0)))
        self._names = ChildNames(entries)
        alike: dict[Entry, Entry] = {}  # a hundred thousand partitions have the same few
        for path in self._names:
            entry = Entry(*entries[path][:-1], len(self._names.of(path)))
            entries[path] = alike.setdefault(entry, entry)
        self._owned = _paths_by_owner(entries)
        self.containers = {path for path, entry in entries.items() if entry.is_container}

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing but what a server makes for itself."""
        return self.entries.keys() <= {ROOT, *SERVER_NODES}

    def children(self, path: str) -> tuple[str, ...] | None:
        if path not in self.entries:
            return None
        return tuple(sorted(self._names.of(path)))

    def owned_by(self, session: int) -> Iterable[str]:
        """The nodes of a session, in the order they were made."""
        return self._owned.get(session, ())

    @property
    def owners(self) -> Iterable[int]:
        """The sessions that own nodes."""
        return self._owned.keys()

    def count_below(self, path: str) -> int:
        """The number of nodes below this one, at any depth."""
        count, above = 0, [path]
        while above:
            at = above.pop()
            names = self._names.of(at)
            count += len(names)
            prefix = at.rstrip("/")
            above += [f"{prefix}/{name}" for name in names]
        return count

    def publish(self, draft: Draft) -> Touched:
        """Let readers see what was drafted."""
        self._keep_sessions(draft.sessions)
        touched = Touched()
        changes = draft.changes
        if changes:
            self.shown_zxid = self.zxid
        for path, entry in changes.items():
            before = self.entries.get(path)
            if entry is None:
                self.entries.pop(path, None)
            else:
                self.entries[path] = entry
            if (before and before.stat) is (entry and entry.stat):
                continue  # only its children changed, and they are changes of their own
            touched.nodes[path] = None
            if (before and before.stat.czxid) != (entry and entry.stat.czxid):
                touched.parents[path] = None
                touched.parents[self._file(path, before, entry)] = None
        return touched

    def _keep_sessions(self, sessions: Mapping[int, int | None]) -> None:
        for session, timeout_ms in sessions.items():
            if timeout_ms is None:
                self.sessions.pop(session, None)
            else:
                self.sessions[session] = timeout_ms

    def _file(self, path: str, before: Entry | None, entry: Entry | None) -> str:
        """Keep the names by parent and by owner in step; says who the parent is."""
        above, name = split(path)
        if before is not None:
            self._names.remove(above, name)
            self._disown(path, before.stat.ephemeral_owner)
        if entry is not None:
            self._names.add(above, name)
            if entry.stat.ephemeral_owner:
                self._owned.setdefault(entry.stat.ephemeral_owner, {})[path] = None
            if entry.is_container:
                self.containers.add(path)
        else:
            self.containers.discard(path)
        return above

    def _disown(self, path: str, session: int) -> None:
        if session != PERSISTENT:
            del self._owned[session][path]
            if not self._owned[session]:
                del self._owned[session]


class Draft:
    """Multis taken in turn, on top of a tree that does not know of them yet."""

    __slots__ = (
        "_acl_of",
        "_alike",
        "_born",
        "_journals",
        "_own",
        "changes",
        "events",
        "sessions",
        "shown",
        "tree",
    )

    def __init__(
        self,
        tree: Tree,
        *,
        journals: bool = False,
        acl_of: Callable[[str], Acl] | None = None,
    ) -> None:
        self.tree = tree
        self._acl_of = acl_of  # of a new node that came without a list; None: everybody's
        self._journals = journals  # whether anybody wants the events
        self.changes: Changes = {}
        self.sessions: dict[int, int | None] = {}  # time-outs; None: it has ended
        self._own: Changes = {}  # of the multi at hand
        self._born: Stat | None = None  # of the nodes that the last multi made
        self._alike: dict[Entry, Entry] = {}
        self.events: list[Event] = []  # of the last multi, in order; none when it failed
        self.shown: list[Entry | None] = []  # of the last one: each node right behind its operation

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to be written."""
        return not self.changes and not self.sessions

    def multi(
        self, ops: Sequence[ServedOp], *, owner: int, now_ms: int, caller: Caller | None = None
    ) -> tuple[Result, ...]:
        """All of the operations or none; later ones see what earlier ones did.

        A caller is somebody who came over the wire: paths and grants are judged then.
        """
        self._own, self.events, self.shown = {}, [], []
        zxid = self.tree.zxid + 1
        results: list[Result] = []
        for op in ops:
            if caller is None:
                result = self._apply(op, owner, zxid, now_ms)
            else:
                result = self._judge(op, owner, zxid, now_ms, caller)
                self.shown.append(self._get(result.path) if result.path else None)
            if result.outcome is not Outcome.OK:
                self.events = []
                return _rolled_back(len(ops), len(results), result)
            results.append(result)
        if self._own:
            # The number stays used even if the disk refuses: a broker's epoch never comes twice.
            self.tree.zxid = zxid
            self.changes.update(self._own)
        return tuple(results)

    def open_session(self, session: int, timeout_ms: int) -> None:
        """Let a session outlive the process."""
        self.events = []
        self.sessions[session] = timeout_ms

    def end_session(self, session: int) -> None:
        """Remove what the session owns."""
        drafted = [path for path, entry in self.changes.items() if _owner(entry) == session]
        owned = dict.fromkeys((*self.tree.owned_by(session), *drafted))
        gone = [Delete(path) for path in owned if _owner(self._get(path)) == session]
        results = self.multi(gone, owner=session, now_ms=0)
        assert all(result.ok for result in results), f"session {session}: {results}"
        if session in self.tree.sessions or session in self.sessions:
            self.sessions[session] = None

    def _get(self, path: str) -> Entry | None:
        for layer in (self._own, self.changes):
            if path in layer:
                return layer[path]
        return self.tree.entries.get(path)

    def _judge(self, op: ServedOp, owner: int, zxid: int, now_ms: int, caller: Caller) -> Result:
        """An operation of somebody from outside, its faults in the order ZooKeeper finds them."""
        match op:
            case ServedCreate():
                return self._create_for(op, owner, zxid, now_ms, caller)
            case Delete():
                fault = self._refused_delete(op, caller)
            case SetData():
                fault = self._refused(op.path, WRITE, caller)
            case Check():
                fault = self._refused(op.path, READ, caller)
            case SetAcl():
                return self._set_acl_for(op, caller)
            case _:
                raise InvariantBroken(f"a {type(op).__name__} did not come over the wire")
        return Result(fault) if fault else self._apply(op, owner, zxid, now_ms)

    def _refused(self, path: str, wanted: int, caller: Caller) -> Outcome | None:
        if not is_valid(path):
            return Outcome.BAD_ARGUMENTS
        entry = self._get(path)
        if entry is None:
            return Outcome.NO_NODE
        return None if caller.may(wanted, path, entry.acl) else Outcome.NO_AUTH

    def _refused_delete(self, op: Delete, caller: Caller) -> Outcome | None:
        if not is_rooted(op.path) or is_servers_own(op.path):
            return Outcome.BAD_ARGUMENTS
        above, _ = split(op.path)
        parent = self._get(above)
        if parent is None:
            return Outcome.NO_NODE
        may = caller.may(DELETE, above, parent.acl) and not caller.is_kept_from(op.path)
        return None if may else Outcome.NO_AUTH

    def _create_for(
        self, op: ServedCreate, owner: int, zxid: int, now_ms: int, caller: Caller
    ) -> Result:
        if op.fault is not None:
            return Result(op.fault)
        if not is_rooted(op.path):
            return Result(Outcome.BAD_ARGUMENTS)
        acl = resolved(op.acl, caller)
        if acl is None:
            return Result(Outcome.INVALID_ACL)
        above, _ = split(op.path)
        parent = self._get(above)
        if parent is None:
            return Result(Outcome.NO_NODE)
        if not caller.may(CREATE, above, parent.acl) or caller.is_kept_from(op.path):
            return Result(Outcome.NO_AUTH)
        if not is_valid(_numbered(op, parent.children_made)):
            return Result(Outcome.BAD_ARGUMENTS)
        return self._create(
            op,
            owner if op.ephemeral else PERSISTENT,
            zxid,
            now_ms,
            acl=acl,
            is_container=op.is_container,
        )

    def _set_acl_for(self, op: SetAcl, caller: Caller) -> Result:
        if not is_valid(op.path):
            return Result(Outcome.BAD_ARGUMENTS)
        acl = resolved(op.acl, caller)
        if acl is None:
            return Result(Outcome.INVALID_ACL)
        entry = self._get(op.path)
        if entry is None:
            return Result(Outcome.NO_NODE)
        if not caller.may(ADMIN, op.path, entry.acl):
            return Result(Outcome.NO_AUTH)
        if op.version not in (ANY_VERSION, entry.aversion):
            return Result(Outcome.BAD_VERSION)
        # The stat stays the same object: to readers of data nothing has changed.
        self._own[op.path] = entry._replace(acl=acl, aversion=entry.aversion + 1)
        return Result(Outcome.OK, op.path)

    def _apply(self, op: ServedOp, owner: int, zxid: int, now_ms: int) -> Result:
        match op:
            case Create():
                acl = self._acl_of(op.path) if self._acl_of else OPEN
                session = owner if op.ephemeral else PERSISTENT
                return self._create(op, session, zxid, now_ms, acl=acl)
            case SetData():
                return self._set(op, zxid, now_ms)
            case Delete():
                return self._delete(op, zxid)
            case Check():
                return Result(_fault(self._get(op.path), op.version) or Outcome.OK)
            case SetAcl():
                raise InvariantBroken(f"the grants of {op.path} are changed over the wire only")
            case _:
                assert_never(op)

    def _create(
        self,
        op: Create,
        owner: int,
        zxid: int,
        now_ms: int,
        *,
        acl: Acl = OPEN,
        is_container: bool = False,
    ) -> Result:
        above, _ = split(op.path)
        parent = self._get(above)
        if parent is None:
            return Result(Outcome.NO_NODE)
        data, stat, made, _, mtime_ms, above_acl, aversion, contains, count = parent
        path = _numbered(op, made)
        if self._get(path) is not None:
            return Result(Outcome.NODE_EXISTS)
        if stat.ephemeral_owner:
            return Result(Outcome.NO_CHILDREN_FOR_EPHEMERALS)
        new = self._born
        if new is None or new.czxid != zxid or new.ctime_ms != now_ms:
            new = self._born = Stat(0, zxid, zxid, now_ms)
        if owner:
            new = Stat(0, zxid, zxid, now_ms, owner)
        self._own[path] = self._shared(Entry(op.data, new, 0, zxid, now_ms, acl, 0, is_container))
        grown = Entry(
            data, stat, made + 1, zxid, mtime_ms, above_acl, aversion, contains, count + 1
        )
        # One with many children changes with each of them, and is like no other.
        self._own[above] = self._shared(grown) if count == 0 else grown
        if self._journals:
            self.events.append(Event(CREATED, path, acl, above_acl))
        return Result(Outcome.OK, path, new)

    def _shared(self, entry: Entry) -> Entry:
        """The one copy of nodes that are alike, as those of partitions made together are."""
        if entry.data is not None and len(entry.data) > _SHARED_BYTES:
            return entry
        return self._alike.setdefault(entry, entry)

    def _set(self, op: SetData, zxid: int, now_ms: int) -> Result:
        entry = self._get(op.path)
        fault = _fault(entry, op.version)
        if entry is None or fault:
            return Result(fault or Outcome.NO_NODE)
        version, czxid, _, ctime_ms, owner = entry.stat
        stat = Stat(version + 1, czxid, zxid, ctime_ms, owner)
        _, _, made, pzxid, _, acl, aversion, contains, count = entry
        self._own[op.path] = self._shared(
            Entry(op.data, stat, made, pzxid, now_ms, acl, aversion, contains, count)
        )
        if self._journals:
            self.events.append(Event(DATA_CHANGED, op.path, acl))
        return Result(Outcome.OK, op.path, stat)

    def _delete(self, op: Delete, zxid: int) -> Result:
        entry = self._get(op.path)
        fault = _fault(entry, op.version)
        if entry is None or fault:
            return Result(fault or Outcome.NO_NODE)
        if entry.children_count:
            return Result(Outcome.NOT_EMPTY)
        above, _ = split(op.path)
        parent = self._get(above)
        assert parent is not None, f"{op.path} has no parent"
        self._own[op.path] = None
        self._own[above] = parent._replace(pzxid=zxid, children_count=parent.children_count - 1)
        if self._journals:
            self.events.append(Event(DELETED, op.path, entry.acl, parent.acl))
        return Result(Outcome.OK, op.path)


def _numbered(op: Create, made: int) -> str:
    """The path of the node to be made; the number of a sequential one is a Java int."""
    return f"{op.path}{as_int32(made):010d}" if op.sequential else op.path


def as_int32(value: int) -> int:
    """A number as an int of 32 bits holds it, which goes round."""
    return ((value + 0x8000_0000) & 0xFFFF_FFFF) - 0x8000_0000


def check_path(op: Op) -> None:
    """Refuse what cannot be a node's path before anything is done."""
    path = f"{op.path}0" if isinstance(op, Create) and op.sequential else op.path
    is_path = path.startswith("/") and "//" not in path and not path.endswith("/")
    if not is_path and not (path == ROOT and isinstance(op, SetData | Check)):
        raise InvariantBroken(f"a {type(op).__name__} cannot have the path {op.path!r}")


def split(path: str) -> tuple[str, str]:
    """The path of the parent, and the name below it."""
    above, _, name = path.rpartition("/")
    return above or ROOT, name


def _paths_by_owner(entries: Mapping[str, Entry]) -> dict[int, dict[str, None]]:
    owned = [path for path, entry in entries.items() if entry.stat.ephemeral_owner]
    by_owner: dict[int, dict[str, None]] = {}
    for path in sorted(owned, key=lambda path: (entries[path].stat.czxid, path)):
        by_owner.setdefault(entries[path].stat.ephemeral_owner, {})[path] = None
    return by_owner


def _owner(entry: Entry | None) -> int:
    return entry.stat.ephemeral_owner if entry else PERSISTENT


def _fault(entry: Entry | None, version: int) -> Outcome | None:
    if entry is None:
        return Outcome.NO_NODE
    if version not in (ANY_VERSION, entry.stat.version):
        return Outcome.BAD_VERSION
    return None


def _rolled_back(count: int, failed_at: int, failure: Result) -> tuple[Result, ...]:
    results = [Result(Outcome.ROLLED_BACK)] * count
    results[failed_at] = failure
    return tuple(results)
