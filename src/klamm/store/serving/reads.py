"""Answers those who read a tree over the wire.

Each answer is the body of a reply, or the code of an error. A path that cannot be one is a node
that is not there; the empty path is the root.

Pure: no clock, no disk, no loop.
"""

from __future__ import annotations

from typing import Final

from klamm.model.errors import ProtocolError
from klamm.store.access import ADMIN, READ, Caller, redacted
from klamm.store.node_paths import LENGTH_MAX
from klamm.store.serving import codes, jute, replies
from klamm.store.serving.requests import (
    AddWatch,
    CheckWatches,
    CountBelow,
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    GetEphemerals,
    MultiRead,
    RemoveWatches,
    SetWatches,
    Sync,
    WhoAmI,
)
from klamm.store.serving.watchtable import C, Register, WatchTable
from klamm.store.tree import CHILDREN_CHANGED, CREATED, DATA_CHANGED, DELETED, ROOT, Entry, Tree

# What many reads in one may answer together; a client asks again for the rest.
_MANY_BYTES_MAX: Final = 32 << 20

Answer = bytes | int


class TooMuch(ProtocolError):
    """An answer would be larger than a server is willing to make."""


def get_data(tree: Tree, caller: Caller, request: GetData) -> Answer:
    entry = _readable(tree, caller, request.path or ROOT)
    return entry if isinstance(entry, int) else jute.buffer(entry.data) + jute.stat(entry)


def exists(tree: Tree, caller: Caller, request: Exists) -> Answer:
    entry = _readable(tree, caller, request.path or ROOT)
    return entry if isinstance(entry, int) else jute.stat(entry)


def get_children(tree: Tree, caller: Caller, request: GetChildren) -> Answer:
    path = request.path or ROOT
    entry = _readable(tree, caller, path)
    if isinstance(entry, int):
        return entry
    names = jute.texts(tree.children(path) or ())
    return names + jute.stat(entry) if request.with_stat else names


def get_acl(tree: Tree, caller: Caller, request: GetAcl) -> Answer:
    path = request.path or ROOT
    entry = tree.entries.get(path)
    if entry is None:
        return codes.NO_NODE
    if not caller.may(READ, path, entry.acl) and not caller.may(ADMIN, path, entry.acl):
        return codes.NO_AUTH
    may_see = caller.may(ADMIN, path, entry.acl)
    return jute.acl(entry.acl if may_see else redacted(entry.acl)) + jute.stat(entry)


def count_below(tree: Tree, caller: Caller, request: CountBelow) -> Answer:
    path = request.path or ROOT
    entry = _readable(tree, caller, path)
    return entry if isinstance(entry, int) else jute.INT.pack(tree.count_below(path))


def sync(_tree: Tree, _caller: Caller, request: Sync) -> Answer:
    return jute.text(request.path)


def who_am_i(_tree: Tree, caller: Caller, _request: WhoAmI) -> Answer:
    known = [("ip", caller.address)]
    known += [("digest", digest.partition(":")[0]) for digest in caller.digests]
    parts = [jute.text(scheme) + jute.text(id) for scheme, id in known]
    return b"".join((jute.INT.pack(len(parts)), *parts))


def multi_read(tree: Tree, caller: Caller, request: MultiRead) -> Answer:
    parts: list[tuple[int, Answer]] = []
    size = 0
    for read in request.reads:
        if isinstance(read, GetData):
            op, found = codes.GET_DATA, get_data(tree, caller, read)
        else:
            op, found = codes.GET_CHILDREN, get_children(tree, caller, read)
        size += 0 if isinstance(found, int) else len(found)
        if size > _MANY_BYTES_MAX:
            raise TooMuch(f"many reads in one come to more than {_MANY_BYTES_MAX} bytes")
        parts.append((op, found))
    return replies.of_reads(parts)


def get_ephemerals(tree: Tree, session: int, request: GetEphemerals) -> Answer:
    prefix = "" if request.prefix == ROOT else request.prefix
    return jute.texts(path for path in tree.owned_by(session) if path.startswith(prefix))


def watched_read(
    table: WatchTable[C], connection: C, request: GetData | Exists | GetChildren, answer: Answer
) -> None:
    """Set the watch that a read asks for: on what it found, or on what may come to be."""
    found = not isinstance(answer, int)
    path = request.path or ROOT
    if isinstance(request, Exists):
        if (found or answer == codes.NO_NODE) and len(path) <= LENGTH_MAX:
            table.add(connection, Register.DATA, path)
    elif found:
        is_data = isinstance(request, GetData)
        table.add(connection, Register.DATA if is_data else Register.CHILD, path)


def watch(
    table: WatchTable[C], connection: C, request: AddWatch | RemoveWatches | CheckWatches
) -> Answer:
    """Set, take off or look for lasting watches."""
    path = request.path or ROOT
    match request:
        case AddWatch():
            register = Register.RECURSIVE if request.is_recursive else Register.PERSISTENT
            if len(path) <= LENGTH_MAX:
                table.add(connection, register, path)
            return jute.INT.pack(codes.OK)
        case RemoveWatches():
            return b"" if table.remove(connection, request.kind, path) else codes.NO_WATCHER
        case CheckWatches():
            return b"" if table.has(connection, request.kind, path) else codes.NO_WATCHER


def watch_again(
    tree: Tree, caller: Caller, table: WatchTable[C], connection: C, request: SetWatches
) -> list[bytes]:
    """Set the watches of the connection before; the events of those that would have fired."""
    events: list[bytes] = []

    def watch(register: Register, path: str, missed: int) -> None:
        entry = tree.entries.get(path)
        if not missed:
            if len(path) <= LENGTH_MAX:
                table.add(connection, register, path)
        elif entry is None or caller.may(READ, path, entry.acl):
            events.append(replies.event(missed, path))

    for path in request.data:
        watch(Register.DATA, path, _missed_data(tree.entries.get(path), request.seen_zxid))
    for path in request.exist:
        watch(Register.DATA, path, CREATED if path in tree.entries else 0)
    for path in request.child:
        watch(Register.CHILD, path, _missed_child(tree.entries.get(path), request.seen_zxid))
    for path in request.persistent:
        watch(Register.PERSISTENT, path, 0)
    for path in request.recursive:
        watch(Register.RECURSIVE, path, 0)
    return events


def _missed_data(entry: Entry | None, seen_zxid: int) -> int:
    if entry is None:
        return DELETED
    return DATA_CHANGED if entry.stat.mzxid > seen_zxid else 0


def _missed_child(entry: Entry | None, seen_zxid: int) -> int:
    if entry is None:
        return DELETED
    return CHILDREN_CHANGED if entry.pzxid > seen_zxid else 0


def _readable(tree: Tree, caller: Caller, path: str) -> Entry | int:
    entry = tree.entries.get(path)
    if entry is None:
        return codes.NO_NODE
    return entry if caller.may(READ, path, entry.acl) else codes.NO_AUTH
