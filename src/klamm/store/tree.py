"""The nodes in memory, and what a multi does to them.

A `Tree` is what readers see. A `Draft` is what the tree will be once the multis it took are
durable: a layer of changes on top, which is put into the tree when they are, or thrown away when
the disk refused. Within a draft every multi is a layer of its own, so that one that fails leaves
nothing behind for the next one to see.

Pure: no clock, no disk, no loop.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, assert_never

from klamm.model.errors import InvariantBroken
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


class Entry(NamedTuple):
    """A node as the tree holds it."""

    data: bytes | None
    stat: Stat
    children_made: int = 0  # ever: the next sequential child's number, as in ZooKeeper
    children_count: int = 0  # now


Changes = dict[str, Entry | None]  # None: the node is gone


@dataclass(slots=True)
class Touched:
    """The paths whose watchers have to be told."""

    # Dicts for sets, because they keep their order: the same writes always give the same hints.
    nodes: dict[str, None] = field(default_factory=dict)
    parents: dict[str, None] = field(default_factory=dict)


class Tree:
    """The tree that readers see."""

    __slots__ = ("_names", "_owned", "entries", "zxid")

    def __init__(self, entries: dict[str, Entry], zxid: int) -> None:
        self.entries = entries  # without child counts, which are made here
        self.zxid = zxid  # of the last transaction that was tried
        entries.setdefault(ROOT, Entry(b"", Stat(version=0, czxid=0, mzxid=0, ctime_ms=0)))
        self._names = _names_by_parent(entries)
        self._owned: dict[int, set[str]] = {}
        for path, names in self._names.items():
            data, stat, children_made, _ = entries[path]
            entries[path] = Entry(data, stat, children_made, len(names))

    def children(self, path: str) -> tuple[str, ...] | None:
        if path not in self.entries:
            return None
        return tuple(sorted(self._names.get(path, ())))

    def owned_by(self, session: int) -> Iterable[str]:
        return self._owned.get(session, ())

    def publish(self, changes: Changes) -> Touched:
        """Let readers see these changes."""
        touched = Touched()
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

    def _file(self, path: str, before: Entry | None, entry: Entry | None) -> str:
        """Keep the names by parent and by owner in step; says who the parent is."""
        above, name = split(path)
        if before is not None:
            self._names[above].remove(name)
            self._disown(path, before.stat.ephemeral_owner)
        if entry is not None:
            self._names.setdefault(above, set()).add(name)
            if entry.stat.ephemeral_owner:
                self._owned.setdefault(entry.stat.ephemeral_owner, set()).add(path)
        if not self._names[above]:
            del self._names[above]
        return above

    def _disown(self, path: str, session: int) -> None:
        if session != PERSISTENT:
            self._owned[session].remove(path)
            if not self._owned[session]:
                del self._owned[session]


class Draft:
    """Multis taken in turn, on top of a tree that does not know of them yet."""

    __slots__ = ("_own", "changes", "tree")

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.changes: Changes = {}
        self._own: Changes = {}  # of the multi at hand

    def multi(self, ops: Sequence[Op], *, owner: int, now_ms: int) -> tuple[Result, ...]:
        """All of the operations or none; later ones see what earlier ones did."""
        self._own = {}
        zxid = self.tree.zxid + 1
        results: list[Result] = []
        for op in ops:
            result = self._apply(op, owner, zxid, now_ms)
            if result.outcome is not Outcome.OK:
                return _rolled_back(len(ops), len(results), result)
            results.append(result)
        if self._own:
            # The number stays used even if the disk refuses: a broker's epoch never comes twice.
            self.tree.zxid = zxid
            self.changes.update(self._own)
        return tuple(results)

    def end_session(self, session: int) -> None:
        """Remove what the session owns."""
        drafted = [path for path, entry in self.changes.items() if _owner(entry) == session]
        owned = dict.fromkeys((*self.tree.owned_by(session), *drafted))
        gone = [Delete(path) for path in owned if _owner(self._get(path)) == session]
        results = self.multi(gone, owner=session, now_ms=0)
        assert all(result.ok for result in results), f"session {session}: {results}"

    def _get(self, path: str) -> Entry | None:
        for layer in (self._own, self.changes):
            if path in layer:
                return layer[path]
        return self.tree.entries.get(path)

    def _apply(self, op: Op, owner: int, zxid: int, now_ms: int) -> Result:
        match op:
            case Create():
                return self._create(op, owner if op.ephemeral else PERSISTENT, zxid, now_ms)
            case SetData():
                return self._set(op, zxid)
            case Delete():
                return self._delete(op)
            case Check():
                return Result(_fault(self._get(op.path), op.version) or Outcome.OK)
            case _:
                assert_never(op)

    def _create(self, op: Create, owner: int, zxid: int, now_ms: int) -> Result:
        above, _ = split(op.path)
        parent = self._get(above)
        if parent is None:
            return Result(Outcome.NO_NODE)
        data, stat, made, count = parent
        path = f"{op.path}{made:010d}" if op.sequential else op.path
        if self._get(path) is not None:
            return Result(Outcome.NODE_EXISTS)
        if stat.ephemeral_owner:
            return Result(Outcome.NO_CHILDREN_FOR_EPHEMERALS)
        new = Stat(0, zxid, zxid, now_ms, owner)
        self._own[path] = Entry(op.data, new)
        self._own[above] = Entry(data, stat, made + 1, count + 1)
        return Result(Outcome.OK, path, new)

    def _set(self, op: SetData, zxid: int) -> Result:
        entry = self._get(op.path)
        fault = _fault(entry, op.version)
        if entry is None or fault:
            return Result(fault or Outcome.NO_NODE)
        version, czxid, _, ctime_ms, owner = entry.stat
        stat = Stat(version + 1, czxid, zxid, ctime_ms, owner)
        self._own[op.path] = Entry(op.data, stat, entry.children_made, entry.children_count)
        return Result(Outcome.OK, op.path, stat)

    def _delete(self, op: Delete) -> Result:
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
        self._own[above] = parent._replace(children_count=parent.children_count - 1)
        return Result(Outcome.OK, op.path)


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


def _names_by_parent(paths: Iterable[str]) -> dict[str, set[str]]:
    names = defaultdict[str, set[str]](set)
    for path in paths:
        above, _, name = path.rpartition("/")
        if name:  # all but the root
            names[above or ROOT].add(name)
    return dict(names)


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
