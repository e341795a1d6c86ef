"""Frames -> requests.

What cannot be decoded is a request too: a refusal with the code that ZooKeeper has for it. So the
next one on the same connection finds its place in the order of replies.

Pure: no clock, no disk, no loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from klamm.store.access import ServedCreate, ServedOp, SetAcl
from klamm.store.port import Check, Delete, Outcome, SetData
from klamm.store.serving import codes, jute
from klamm.store.serving.jute import Malformed, Reader

# One multi has at most as many operations as one commit of the store.
OPS_MAX: Final = 20_000

_EPHEMERAL, _SEQUENTIAL, _CONTAINER = 1, 2, 4
_TTLS: Final = (5, 6)


class GetData(NamedTuple):
    path: str
    watch: bool


class Exists(NamedTuple):
    path: str
    watch: bool


class GetChildren(NamedTuple):
    path: str
    watch: bool
    with_stat: bool


class GetAcl(NamedTuple):
    path: str


class Sync(NamedTuple):
    path: str


class GetEphemerals(NamedTuple):
    prefix: str


class CountBelow(NamedTuple):
    path: str


class WhoAmI(NamedTuple):
    pass


class MultiRead(NamedTuple):
    reads: tuple[GetData | GetChildren, ...]


class AddWatch(NamedTuple):
    path: str
    is_recursive: bool


class RemoveWatches(NamedTuple):
    path: str
    kind: int


class CheckWatches(NamedTuple):
    path: str
    kind: int


class SetWatches(NamedTuple):
    """The watches that a client had on its connection before."""

    seen_zxid: int
    data: list[str]
    exist: list[str]
    child: list[str]
    persistent: list[str]
    recursive: list[str]


class Auth(NamedTuple):
    scheme: str
    data: bytes


class Refusal(NamedTuple):
    """A request that is answered with a code, whatever the store holds."""

    code: int
    closes: bool = False
    body: bytes = b""
    zxid: int | None = None


class Nothing(NamedTuple):
    """A request that is answered with nothing but that it was read."""


@dataclass(frozen=True, slots=True)
class ChangeNodes:
    """Operations to be done, all or none; `kinds` says how each is answered."""

    op: int
    ops: tuple[ServedOp, ...]
    kinds: tuple[int, ...]


class CloseSession(NamedTuple):
    pass


Read = (
    GetData
    | Exists
    | GetChildren
    | GetAcl
    | Sync
    | GetEphemerals
    | CountBelow
    | WhoAmI
    | MultiRead
    | AddWatch
    | RemoveWatches
    | CheckWatches
    | SetWatches
    | Auth
    | Refusal
    | Nothing
)
Request = Read | ChangeNodes | CloseSession


class Connect(NamedTuple):
    """The first message of a client."""

    seen_zxid: int
    timeout_ms: int
    session: int
    password: bytes
    says_read_only: bool  # clients of today's protocol do, and expect the same byte back


def connect(frame: bytes) -> Connect:
    """The first frame of a connection."""
    reader = Reader(frame)
    reader.int32()  # the protocol's version, which was never raised
    seen, timeout_ms, session = reader.int64(), reader.int32(), reader.int64()
    password = reader.buffer() or b""
    return Connect(seen, timeout_ms, session, password, reader.left > 0)


def decode(op: int, frame: bytes, at: int) -> Request:
    """One request, whose body begins behind its header."""
    decoder = _DECODERS.get(op)
    if decoder is None:
        return Refusal(codes.UNIMPLEMENTED, closes=True, zxid=-1)
    try:
        return decoder(Reader(frame, at))
    except Malformed:
        return Refusal(codes.MARSHALLING_ERROR)


def _get_data(reader: Reader) -> Request:
    return GetData(reader.path(), reader.boolean())


def _exists(reader: Reader) -> Request:
    return Exists(reader.path(), reader.boolean())


def _get_children(reader: Reader) -> Request:
    return GetChildren(reader.path(), reader.boolean(), False)


def _get_children2(reader: Reader) -> Request:
    return GetChildren(reader.path(), reader.boolean(), True)


def _watches(reader: Reader, op: int) -> Request:
    path, kind = reader.path(), reader.int32()
    if not 1 <= kind <= 5:
        raise Malformed(f"watches of the kind {kind}")
    return RemoveWatches(path, kind) if op == codes.REMOVE_WATCHES else CheckWatches(path, kind)


def _set_watches(reader: Reader, op: int) -> Request:
    seen = reader.int64()
    lists = [reader.many(reader.path) for _ in range(5 if op == codes.SET_WATCHES2 else 3)]
    return SetWatches(seen, *lists, *([] for _ in range(5 - len(lists))))


def _add_watch(reader: Reader) -> Request:
    path, mode = reader.path(), reader.int32()
    if mode not in (0, 1):
        raise Malformed(f"a watch of the mode {mode}")
    return AddWatch(path, mode == 1)


def _auth(reader: Reader) -> Request:
    reader.int32()  # always 0
    return Auth(reader.text() or "", reader.buffer() or b"")


def _lone(op: int) -> Callable[[Reader], Request]:
    read = _OPERATIONS[op]
    kind = _ANSWERED_AS.get(op, op)
    return lambda reader: ChangeNodes(op, (read(reader),), (kind,))


def _create(reader: Reader, op: int) -> ServedCreate:
    path, data, acl, flags = reader.path(), reader.buffer(), reader.acl(), reader.int32()
    if op == codes.CREATE_TTL:
        reader.int64()
    if op == codes.CREATE_CONTAINER and 0 <= flags <= _CONTAINER:
        return ServedCreate(path, data, False, bool(flags & _SEQUENTIAL), acl, True)
    fault = _fault_of_flags(op, flags)
    if fault is not None:
        return ServedCreate(path, data, acl=acl, fault=fault)
    is_container = flags == _CONTAINER
    ephemeral, sequential = bool(flags & _EPHEMERAL), bool(flags & _SEQUENTIAL)
    return ServedCreate(path, data, ephemeral, sequential, acl, is_container)


def _fault_of_flags(op: int, flags: int) -> Outcome | None:
    if flags in _TTLS:
        return Outcome.UNIMPLEMENTED
    if not 0 <= flags <= _CONTAINER or op == codes.CREATE_TTL:
        return Outcome.BAD_ARGUMENTS
    return None


def _delete(reader: Reader) -> ServedOp:
    return Delete(reader.path(), reader.int32())


def _set_data(reader: Reader) -> ServedOp:
    return SetData(reader.path(), reader.buffer(), reader.int32())


def _check(reader: Reader) -> ServedOp:
    return Check(reader.path(), reader.int32())


def _set_acl(reader: Reader) -> ServedOp:
    return SetAcl(reader.path(), reader.acl(), reader.int32())


_OPERATIONS: Final[dict[int, Callable[[Reader], ServedOp]]] = {
    codes.CREATE: lambda reader: _create(reader, codes.CREATE),
    codes.CREATE2: lambda reader: _create(reader, codes.CREATE2),
    codes.CREATE_CONTAINER: lambda reader: _create(reader, codes.CREATE_CONTAINER),
    codes.CREATE_TTL: lambda reader: _create(reader, codes.CREATE_TTL),
    codes.DELETE: _delete,
    codes.SET_DATA: _set_data,
    codes.CHECK: _check,
    codes.SET_ACL: _set_acl,
}
_IN_MULTI: Final = _OPERATIONS.keys() - {codes.SET_ACL}
_ANSWERED_AS: Final = {codes.CREATE_CONTAINER: codes.CREATE2, codes.CREATE_TTL: codes.CREATE2}


def _multi(reader: Reader) -> Request:
    ops: list[ServedOp] = []
    kinds: list[int] = []
    while (op := _header(reader, len(ops))) is not None:
        if op not in _IN_MULTI:
            raise Malformed(f"an operation {op} within a multi")
        operation = _OPERATIONS[op](reader)
        if isinstance(operation, ServedCreate) and operation.fault is Outcome.BAD_ARGUMENTS:
            raise Malformed("flags of a create that there are not")
        ops.append(operation)
        kinds.append(_ANSWERED_AS.get(op, op))
    return ChangeNodes(codes.MULTI, tuple(ops), tuple(kinds))


def _multi_read(reader: Reader) -> Request:
    reads: list[GetData | GetChildren] = []
    while (op := _header(reader, len(reads))) is not None:
        path, _ = reader.path(), reader.boolean()
        if op == codes.GET_DATA:
            reads.append(GetData(path, False))
        elif op == codes.GET_CHILDREN:
            reads.append(GetChildren(path, False, False))
        else:
            raise Malformed(f"an operation {op} within a multiRead")
    return MultiRead(tuple(reads))


def _header(reader: Reader, count: int) -> int | None:
    """The operation that comes next in a multi, or None at its end."""
    op, done, _ = reader.int32(), reader.boolean(), reader.int32()
    if count > OPS_MAX:
        raise Malformed(f"a multi of more than {OPS_MAX} operations")
    return None if done else op


_DECODERS: Final[dict[int, Callable[[Reader], Request]]] = {
    codes.EXISTS: _exists,
    codes.GET_DATA: _get_data,
    codes.GET_ACL: lambda reader: GetAcl(reader.path()),
    codes.GET_CHILDREN: _get_children,
    codes.SYNC: lambda reader: Sync(reader.path()),
    codes.PING: lambda _: Nothing(),
    codes.GET_CHILDREN2: _get_children2,
    codes.MULTI: _multi,
    codes.RECONFIG: lambda _: Refusal(codes.RECONFIG_DISABLED),
    codes.CHECK_WATCHES: lambda reader: _watches(reader, codes.CHECK_WATCHES),
    codes.REMOVE_WATCHES: lambda reader: _watches(reader, codes.REMOVE_WATCHES),
    codes.DELETE_CONTAINER: lambda _: Refusal(codes.BAD_ARGUMENTS),
    codes.MULTI_READ: _multi_read,
    codes.AUTH: _auth,
    codes.SET_WATCHES: lambda reader: _set_watches(reader, codes.SET_WATCHES),
    # A Java client reads the token of the answer whatever the code says.
    codes.SASL: lambda _: Refusal(codes.AUTH_FAILED, closes=True, body=jute.buffer(None)),
    codes.GET_EPHEMERALS: lambda reader: GetEphemerals(reader.text() or ""),
    codes.GET_ALL_CHILDREN_NUMBER: lambda reader: CountBelow(reader.path()),
    codes.SET_WATCHES2: lambda reader: _set_watches(reader, codes.SET_WATCHES2),
    codes.ADD_WATCH: _add_watch,
    codes.WHO_AM_I: lambda _: WhoAmI(),
    codes.CLOSE: lambda _: CloseSession(),
    **{op: _lone(op) for op in _OPERATIONS},
}
