"""The requests that klamm sends to ZooKeeper, in the form kazoo's connection wants them.

kazoo knows neither how to read many nodes in one request (multiRead, since 3.6), nor persistent
watches (since 3.6), nor what a created node's stat is within a multi (create2, since 3.5). A
request is anything with a `type`, `serialize()` and `deserialize()`, so these are ours.

Callers' paths begin at the root they were given (Kafka's chroot); the wire's begin at the server's.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, assert_never

from klamm.model.errors import StoreUnavailable
from klamm.store.access import ALL, OPEN, READ, Acl, Grant, ServedCreate
from klamm.store.browsing import Facts, Seen
from klamm.store.layout.protection import Protection, protection
from klamm.store.port import Check, Create, Delete, Node, Op, Outcome, Result, SetData, Stat

# What a server takes in one request unless its jute.maxbuffer was raised, less room for headers.
REQUEST_BYTES_MAX: Final = 0xFFFFF - 1024

_INT: Final = struct.Struct("!i")
_HEADER: Final = struct.Struct("!i?i")  # of one operation: type, whether it is the end, error
_STAT: Final = struct.Struct("!qqqqiiiqiiq")
_END: Final = _HEADER.pack(-1, True, -1)
_ERROR: Final = -1
_NO_AUTH: Final = -102
# What to do about that.
SHOW: Final = (
    "log in as the one who owns it (klamm.zookeeper.digest.file, klamm.zookeeper.sasl.jaas.config "
    "or zookeeper.ssl.keystore.location)"
)
_GET, _SET, _DELETE, _CHECK, _CREATE2 = 4, 5, 2, 13, 15

_OUTCOMES: Final = {
    0: Outcome.ROLLED_BACK,  # this one was fine, but another was not
    -2: Outcome.ROLLED_BACK,  # this one was not even tried
    -101: Outcome.NO_NODE,
    -102: Outcome.NO_AUTH,
    -103: Outcome.BAD_VERSION,
    -108: Outcome.NO_CHILDREN_FOR_EPHEMERALS,
    -110: Outcome.NODE_EXISTS,
    -111: Outcome.NOT_EMPTY,
}


class Multi:
    """Operations, all or none."""

    type: ClassVar[int] = 14

    def __init__(self, ops: Sequence[Op], chroot: str = "", *, sets_acl: bool = False) -> None:
        self._ops = ops
        self._chroot = chroot
        # Once, and on the caller's thread: the size decides whether it can be sent at all.
        self._payload = b"".join([*(_operation(op, chroot, sets_acl) for op in ops), _END])

    @property
    def size_bytes(self) -> int:
        return len(self._payload)

    def serialize(self) -> bytes:
        return self._payload

    def deserialize(self, data: bytes, offset: int) -> list[Result]:
        results = []
        for op in self._ops:
            kind, _, _ = _HEADER.unpack_from(data, offset)
            result, offset = _result(op, kind, data, offset + _HEADER.size)
            if kind == _CREATE2:
                result = result._replace(path=result.path.removeprefix(self._chroot))
            results.append(result)
        return results


@dataclass(frozen=True, slots=True)
class MultiRead:
    """Many nodes in one request."""

    paths: Sequence[str]
    chroot: str = ""
    type: ClassVar[int] = 22

    def serialize(self) -> bytes:
        header = _HEADER.pack(_GET, False, -1)
        return b"".join([*(header + _path(path, self.chroot) + b"\0" for path in self.paths), _END])

    def deserialize(self, data: bytes, offset: int) -> list[Node | None]:
        nodes: list[Node | None] = []
        for _ in self.paths:
            kind, _, _ = _HEADER.unpack_from(data, offset)
            offset += _HEADER.size
            if kind == _ERROR:
                (code,) = _INT.unpack_from(data, offset)
                if code == _NO_AUTH:
                    raise StoreUnavailable(f"{self.paths[len(nodes)]} may not be read: {SHOW}")
                nodes.append(None)
                offset += _INT.size
            else:
                content, offset = _read_bytes(data, offset)
                nodes.append(Node(content, _stat(data, offset)))
                offset += _STAT.size
        return nodes


@dataclass(frozen=True, slots=True)
class Look:
    """Many nodes in one request, with all that the server knows of them."""

    paths: Sequence[str]
    chroot: str = ""
    type: ClassVar[int] = 22

    def serialize(self) -> bytes:
        return MultiRead(self.paths, self.chroot).serialize()

    def deserialize(self, data: bytes, offset: int) -> list[Seen | None]:
        found: list[Seen | None] = []
        for path in self.paths:
            kind, _, _ = _HEADER.unpack_from(data, offset)
            offset += _HEADER.size
            if kind == _ERROR:
                (code,) = _INT.unpack_from(data, offset)
                found.append(Seen(path, None, None) if code == _NO_AUTH else None)
                offset += _INT.size
            else:
                content, offset = _read_bytes(data, offset)
                found.append(Seen(path, content, _facts(data, offset)))
                offset += _STAT.size
        return found


@dataclass(frozen=True, slots=True)
class GetAcl:
    """The grants of a node, as far as the server shows them."""

    path: str
    chroot: str = ""
    type: ClassVar[int] = 6

    def serialize(self) -> bytes:
        return _path(self.path, self.chroot)

    def deserialize(self, data: bytes, offset: int) -> Acl:
        (count,) = _INT.unpack_from(data, offset)
        offset += _INT.size
        grants = []
        for _ in range(count):
            (perms,) = _INT.unpack_from(data, offset)
            scheme, offset = _read_bytes(data, offset + _INT.size)
            id, offset = _read_bytes(data, offset)
            grants.append(Grant(perms, (scheme or b"").decode(), (id or b"").decode()))
        acl = tuple(grants)
        return OPEN if acl == OPEN else acl


@dataclass(frozen=True, slots=True)
class SetAcls:
    """New grants for a node, whatever it had."""

    path: str
    acl: Acl
    chroot: str = ""
    type: ClassVar[int] = 7

    def serialize(self) -> bytes:
        return _path(self.path, self.chroot) + _acl(self.acl) + _INT.pack(-1)

    def deserialize(self, data: bytes, offset: int) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class GetChildren:
    """The names below a path; the server's error says when there is no such node."""

    path: str
    chroot: str = ""
    type: ClassVar[int] = 8

    def serialize(self) -> bytes:
        return _path(self.path, self.chroot) + b"\0"

    def deserialize(self, data: bytes, offset: int) -> tuple[str, ...]:
        (count,) = _INT.unpack_from(data, offset)
        offset += _INT.size
        names = []
        for _ in range(count):
            name, offset = _read_bytes(data, offset)
            assert name is not None, "a child without a name"
            names.append(name.decode())
        return tuple(sorted(names))


@dataclass(frozen=True, slots=True)
class AddWatch:
    """Tell of every change of a node and of its list of children, until taken off.

    A recursive one tells of every node from this one down, but of no list of children.
    """

    path: str
    chroot: str = ""
    is_recursive: bool = False
    type: ClassVar[int] = 106

    def serialize(self) -> bytes:
        return _path(self.path, self.chroot) + _INT.pack(self.is_recursive)

    def deserialize(self, data: bytes, offset: int) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class RemoveWatch:
    """Take all watches off a path."""

    path: str
    chroot: str = ""
    type: ClassVar[int] = 18

    def serialize(self) -> bytes:
        return _path(self.path, self.chroot) + _INT.pack(3)

    def deserialize(self, data: bytes, offset: int) -> bool:
        return True


def _operation(op: Op, chroot: str, sets_acl: bool) -> bytes:
    path = _path(op.path, chroot)
    match op:
        case Create():
            acl = _ACLS[protection(op.path, set_acl=sets_acl)]
            if isinstance(op, ServedCreate):
                acl = _acl(op.acl)
            flags = _INT.pack(op.ephemeral + 2 * op.sequential)
            return b"".join((_header(_CREATE2), path, _bytes(op.data), acl, flags))
        case SetData():
            version = _INT.pack(op.version)
            return b"".join((_header(_SET), path, _bytes(op.data), version))
        case Delete():
            return _header(_DELETE) + path + _INT.pack(op.version)
        case Check():
            return _header(_CHECK) + path + _INT.pack(op.version)
        case _:
            assert_never(op)


def _result(op: Op, kind: int, data: bytes, offset: int) -> tuple[Result, int]:
    if kind == _ERROR:
        (code,) = _INT.unpack_from(data, offset)
        return Result(_OUTCOMES[code]), offset + _INT.size
    if kind == _CREATE2:
        path, offset = _read_bytes(data, offset)
        assert path is not None, f"{op.path} was created without a path"
        return Result(Outcome.OK, path.decode(), _stat(data, offset)), offset + _STAT.size
    if kind == _SET:
        return Result(Outcome.OK, op.path, _stat(data, offset)), offset + _STAT.size
    return Result(Outcome.OK, op.path if kind == _DELETE else ""), offset


def _stat(data: bytes, offset: int) -> Stat:
    czxid, mzxid, ctime_ms, _, version, _, _, owner, _, _, _ = _STAT.unpack_from(data, offset)
    return Stat(version, czxid, mzxid, ctime_ms, owner)


def _facts(data: bytes, offset: int) -> Facts:
    czxid, mzxid, ctime_ms, mtime_ms, version, cversion, aversion, owner, size, count, pzxid = (
        _STAT.unpack_from(data, offset)
    )
    return Facts(
        czxid=czxid,
        mzxid=mzxid,
        ctime_ms=ctime_ms,
        mtime_ms=mtime_ms,
        version=version,
        cversion=cversion,
        aversion=aversion,
        ephemeral_owner=owner,
        data_length=size,
        children_count=count,
        pzxid=pzxid,
    )


def _header(kind: int) -> bytes:
    return _HEADER.pack(kind, False, -1)


def _path(path: str, chroot: str) -> bytes:
    return _bytes((chroot + path if path != "/" else chroot or path).encode())


def _acl(grants: Sequence[Grant]) -> bytes:
    entries = [
        _INT.pack(perms) + _bytes(scheme.encode()) + _bytes(id.encode())
        for perms, scheme, id in grants
    ]
    return b"".join((_INT.pack(len(entries)), *entries))


def _bytes(data: bytes | None) -> bytes:
    return _INT.pack(-1) if data is None else _INT.pack(len(data)) + data


def _read_bytes(data: bytes, offset: int) -> tuple[bytes | None, int]:
    (size,) = _INT.unpack_from(data, offset)
    offset += _INT.size
    return (None, offset) if size < 0 else (data[offset : offset + size], offset + size)


# What a new node is protected by. `auth` stands for everybody whom the session has shown to be.
_CREATOR: Final = Grant(ALL, "auth", "")
_ACLS: Final = {
    Protection.OPEN: _acl(OPEN),
    Protection.READABLE: _acl((_CREATOR, Grant(READ, "world", "anyone"))),
    Protection.SECRET: _acl((_CREATOR,)),
}
