"""An export put into a store that holds nothing yet.

Into an embedded store it goes as a whole: the file gets its name when all of it is on the disk.
Into a ZooKeeper it goes piece by piece behind a mark, which keeps brokers from starting; who stops
on the way does the same again and goes on. Either way every node is read back and compared before
it is called done.

In a ZooKeeper a node has the version it had because it is set as often; numbers of transactions and
times are the new server's. How many children a node ever had cannot be carried over, so the notices
that are numbered by it are left out: brokers that start read everything anyway.

What belonged to the brokers of before, however they logged in there, belongs to those of here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from klamm.model.errors import UsageError
from klamm.store.access import ALL, OPEN, READ, Acl, Grant, ServedCreate
from klamm.store.browsing import Seen
from klamm.store.database import read_copy
from klamm.store.exports import Export, Kept
from klamm.store.layout import BROKER_IDS, IMPORT_MARK, Protection, protection
from klamm.store.layout.kinds import kind_of
from klamm.store.node_paths import SERVER_NODES
from klamm.store.port import Create, Delete, Op, Outcome, SetData, Stat
from klamm.store.tree import ROOT, Entry, Tree
from klamm.store.zookeeper import ZooKeeperSession

_NODES_AT_ONCE: Final = 500
_OPS_MAX: Final = 2000  # in one write
_BYTES_MAX: Final = 400_000  # likewise
_VERSION_MAX: Final = 1_000_000  # beyond it, setting as often would take hours
_CREATOR: Final = Grant(ALL, "auth", "")


def tree_of(export: Export, *, owner: str) -> Tree:
    """The nodes of an export as an embedded store has them, numbers of transactions and all.

    Those that somebody owned are the owner's, who is named by the id of a digest.
    """
    creator = Grant(ALL, "digest", owner)
    entries = {node.path: _entry(node, _handed_over(node.acl, creator)) for node in export.nodes}
    return Tree(entries, max((max(n.czxid, n.mzxid, n.pzxid) for n in export.nodes), default=0))


def check_file(store: Path, wanted: Tree) -> None:
    """Compare a store that was written with what it should hold, node by node."""
    found = read_copy(store).entries
    for path in dict.fromkeys((*wanted.entries, *found)):
        if path != ROOT and found.get(path) != wanted.entries.get(path):
            raise UsageError(f"{store} was not written as it should be: {path} is different")


def _entry(node: Kept, acl: Acl) -> Entry:
    stat = Stat(node.version, node.czxid, node.mzxid, node.ctime_ms)
    return Entry(node.data, stat, node.children_made, node.pzxid, node.mtime_ms, acl, node.aversion)


def _handed_over(acl: Acl, creator: Grant) -> Acl:
    """The same grants, but of whoever logged in for a new owner."""
    if acl == OPEN:
        return OPEN
    changed = [g if g.scheme in ("world", "ip") else creator._replace(perms=g.perms) for g in acl]
    return tuple(dict.fromkeys(changed))


def carried(export: Export) -> list[Kept]:
    """The nodes of an export that go into a ZooKeeper."""
    return [n for n in export.nodes if n.path != ROOT and not kind_of(n.path).is_notice]


async def fill_zookeeper(
    session: ZooKeeperSession,
    export: Export,
    *,
    is_somebody: bool = False,
    protects: bool = False,
) -> int:
    """Make the nodes of an export below the session's root; how many there are.

    Where the session is somebody's, so are the nodes that others owned before. With `protects`,
    nodes that were everybody's get the grants of `zookeeper.set.acl`.
    """
    nodes = [
        node._replace(acl=_grants(node, is_somebody=is_somebody, protects=protects))
        for node in carried(export)
    ]
    _check_versions(nodes)
    await _begin(session, export.sha256)
    for at in range(0, len(nodes), _NODES_AT_ONCE):
        await _put(session, nodes[at : at + _NODES_AT_ONCE])
    for at in range(0, len(nodes), _NODES_AT_ONCE):
        await _compare(session, nodes[at : at + _NODES_AT_ONCE])
    await session.multi([Delete(IMPORT_MARK)])
    return len(nodes)


def _check_versions(nodes: Sequence[Kept]) -> None:
    for node in nodes:
        if node.version > _VERSION_MAX:
            raise UsageError(
                f"{node.path} has version {node.version}, which a ZooKeeper reaches only by so "
                f"many writes: more than {_VERSION_MAX} are not done"
            )


async def _begin(session: ZooKeeperSession, sha256: str) -> None:
    """Mark an empty root as being filled, or find our own mark."""
    mark = await session.get(IMPORT_MARK)
    if mark is not None:
        if mark.data != sha256.encode():
            raise UsageError(
                "an import of another file has not ended here: finish it, or delete what it made "
                f"and {IMPORT_MARK}"
            )
        return
    if await session.children(BROKER_IDS):
        raise UsageError("brokers are registered here: an import goes into a ZooKeeper without any")
    names = await session.children(ROOT) or ()
    if others := [name for name in names if f"/{name}" != SERVER_NODES[0]]:
        raise UsageError(
            f"the ZooKeeper is not empty, it has /{others[0]}: an import goes into an empty one, "
            "or below a path of its own (HOST:PORT/PATH)"
        )
    (made,) = await session.multi([Create(IMPORT_MARK, sha256.encode())])
    if not made.ok:
        raise UsageError(f"somebody else imports here as well: {made.outcome}")


async def _put(session: ZooKeeperSession, nodes: Sequence[Kept]) -> None:
    found = await session.look([node.path for node in nodes])
    ops = [op for node, seen in zip(nodes, found, strict=True) for op in _steps(node, seen)]
    for results in await session.multis(_groups(ops)):
        for result in results:
            if not result.ok and result.outcome is not Outcome.ROLLED_BACK:
                raise UsageError(
                    f"a node could not be imported: {result.outcome}. Where it says no auth, log "
                    "in as the one whom the export names as the owner"
                )


def _steps(node: Kept, seen: Seen | None) -> Iterator[Op]:
    """The writes that bring a node from where it is to where it was."""
    version = -1 if seen is None or seen.facts is None else seen.facts.version
    if version < 0:
        yield ServedCreate(node.path, node.data if node.version == 0 else None, acl=node.acl)
        version = 0
    for at in range(version + 1, node.version + 1):
        yield SetData(node.path, node.data if at == node.version else None)


def _groups(ops: Sequence[Op]) -> Iterator[list[Op]]:
    group: list[Op] = []
    size = 0
    for op in ops:
        own = len(op.path) + 200 + len(getattr(op, "data", None) or b"")
        if group and (len(group) >= _OPS_MAX or size + own > _BYTES_MAX):
            yield group
            group, size = [], 0
        group.append(op)
        size += own
    if group:
        yield group


def _grants(node: Kept, *, is_somebody: bool, protects: bool) -> Acl:
    if node.acl == OPEN:
        return protected(node.path) if protects else OPEN
    return _handed_over(node.acl, _CREATOR) if is_somebody else node.acl


def protected(path: str) -> Acl:
    """The grants that a session gives a node where `zookeeper.set.acl` is true."""
    match protection(path, set_acl=True):
        case Protection.OPEN:
            return OPEN
        case Protection.READABLE:
            return (_CREATOR, Grant(READ, "world", "anyone"))
        case Protection.SECRET:
            return (_CREATOR,)


async def _compare(session: ZooKeeperSession, nodes: Sequence[Kept]) -> None:
    found = await session.look([node.path for node in nodes], acls=True)
    for node, seen in zip(nodes, found, strict=True):
        if fault := _difference(node, seen):
            raise UsageError(
                f"{node.path} is not as it should be: {fault}. The import is not done; delete what "
                "it made, and begin anew"
            )


def _difference(node: Kept, seen: Seen | None) -> str | None:
    if seen is None or seen.facts is None:
        return "it is not there" if seen is None else "it may not be read"
    if seen.data != node.data:
        return "it holds something else"
    if seen.facts.version != node.version:
        return f"its version is {seen.facts.version}, not {node.version}"
    if not _is_same(seen.acl, node.acl):
        return "its grants are others"
    return None


def _is_same(found: Acl, wanted: Acl) -> bool:
    """Whether grants are those that were asked for; `auth` became whoever we are."""
    fixed = {grant for grant in wanted if grant.scheme != "auth"}
    own = set(found) - fixed
    if len(fixed) == len(wanted):
        return not own and fixed <= set(found)
    return fixed <= set(found) and bool(own) and all(g.scheme != "world" for g in own)
