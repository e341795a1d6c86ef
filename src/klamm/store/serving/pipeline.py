"""The requests of one connection, in their order.

Replies leave in the order of the requests. A read waits for the writes before it, and a write for
the reads before it, so that each read shows what came before it on its connection and nothing that
came behind. Writes in a row are handed to the store without waiting for each other. Only a ping is
answered at once.

When a connection is lost, what it had sent is still done, in order; only the replies are not.

Pure: bytes go in and come out, the store and the clock are behind `Host`.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Final, Protocol

from klamm.model.errors import ProtocolError
from klamm.store.access import Caller
from klamm.store.port import Result
from klamm.store.serving import codes, reads, replies, requests
from klamm.store.serving.jute import Malformed
from klamm.store.serving.requests import (
    AddWatch,
    Auth,
    ChangeNodes,
    CheckWatches,
    CloseSession,
    Connect,
    CountBelow,
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    GetEphemerals,
    MultiRead,
    Nothing,
    Refusal,
    RemoveWatches,
    Request,
    SetWatches,
    Sync,
    WhoAmI,
)
from klamm.store.serving.sessions import ServedSession
from klamm.store.serving.watchtable import WatchTable
from klamm.store.tree import Draft, Entry, Tree
from klamm.store.writes import Write

FRAME_BYTES_MAX: Final = 0xFFFFF
CONNECT_BYTES_MAX: Final = 1024
_QUEUED_MAX: Final = 1000
_QUEUED_BYTES_MAX: Final = 2 << 20
# So many requests are answered before other connections have their turn.
_TURN: Final = 256
_OUT_BYTES_TURN: Final = 1 << 20
_HEADER: Final = struct.Struct(">ii")


class State(Enum):
    """The progress of a connection."""

    NEW = "new"
    CONNECTING = "connecting"
    OPEN = "open"
    CLOSED = "closed"


class Host(Protocol):
    """The services that a connection needs of its server."""

    @property
    def tree(self) -> Tree: ...
    @property
    def watches(self) -> WatchTable[Pipeline]: ...
    @property
    def zxid(self) -> int:
        """The last transaction that this server has told of."""
        ...

    def connect(self, pipeline: Pipeline, request: Connect) -> None:
        """Give a connection its session, or none."""
        ...

    def heard(self, session: Session) -> None:
        """Something came from a session."""
        ...

    def submit(self, write: Write) -> None: ...

    def authenticate(self, pipeline: Pipeline, request: Auth) -> bool:
        """Let a caller be somebody more; False where that is nobody."""
        ...


class Pipeline:
    """One connection without its socket."""

    __slots__ = (
        "_buffer",
        "_head",
        "_host",
        "_queue",
        "_queued_bytes",
        "_writes",
        "address",
        "caller",
        "is_blocked",
        "last_op",
        "out",
        "out_bytes",
        "received_count",
        "sent_count",
        "session",
        "state",
        "why_closed",
    )

    def __init__(self, host: Host, address: str, caller: Caller) -> None:
        self._host = host
        self._buffer = bytearray()
        self._queue: deque[tuple[int, int, bytes]] = deque()  # xid, operation, frame
        self._queued_bytes = 0
        self._head: Request | None = None  # the first of the queue, decoded
        self._writes = 0  # handed in and not answered
        self.address = address
        self.caller = caller
        self.session: Session | None = None
        self.state = State.NEW
        self.is_blocked = False  # the other end does not read: nothing more is answered
        self.out: list[bytes] = []  # to be sent
        self.out_bytes = 0
        self.why_closed = ""  # a fault of the other end, '' where there was none
        self.received_count = self.sent_count = 0
        self.last_op = 0

    @property
    def is_open(self) -> bool:
        return self.state is State.OPEN

    @property
    def is_closed(self) -> bool:
        return self.state is State.CLOSED

    @property
    def outstanding(self) -> int:
        """Requests that were taken and not answered."""
        return len(self._queue) + self._writes

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be read for now."""
        return (
            self.is_blocked
            or self.outstanding >= _QUEUED_MAX
            or self._queued_bytes >= _QUEUED_BYTES_MAX
        )

    def feed(self, data: bytes) -> None:
        """Take what came; pings are answered, all else waits for `advance`."""
        if self.state is State.CLOSED:
            return
        self._buffer += data
        if self.session is not None:
            self._host.heard(self.session)
        try:
            self._parse()
        except ProtocolError as fault:
            self.break_off(str(fault))

    def begin(self, session: Session, frame: bytes) -> None:
        """The session is there: answer, and go on with what came behind."""
        self.session = session
        session.connection = self
        self.state = State.OPEN
        self.send(frame)

    def send(self, frame: bytes) -> None:
        if self.state is not State.CLOSED:
            self.out.append(frame)
            self.out_bytes += len(frame)
            self.sent_count += 1

    def taken(self) -> bytes:
        """The bytes that are to be sent now."""
        data = b"".join(self.out)
        self.out.clear()
        self.out_bytes = 0
        return data

    def advance(self) -> bool:
        """Answer what can be answered, as much as one turn has room for; whether there is more."""
        try:
            for _ in range(_TURN):
                if not self._step():
                    return False
                if self.out_bytes >= _OUT_BYTES_TURN:
                    break
        except ProtocolError as fault:
            self.break_off(str(fault))
        return bool(self._queue)

    def concluded(self, write: ServedWrite, zxid: int) -> None:
        """A write of this connection is done or refused; `zxid` is where the tree is by now."""
        self._writes -= 1
        if self.state is not State.OPEN:
            return
        code, body = codes.OK, b""
        if isinstance(write, ServedMulti):
            code, body = replies.of_change(write.change, write.results, write.shown)
        self.send(replies.reply(write.xid, zxid, code, body))
        if isinstance(write, EndOfSession):
            self.close()

    def close(self) -> None:
        """Send what is to be sent, and no more."""
        self._host.watches.remove_connection(self)
        if self.session is not None and self.session.connection is self:
            self.session.connection = None
        self._finish()
        self.state = State.CLOSED

    def break_off(self, why: str) -> None:
        """The other end did what makes no sense, or more than is good."""
        if self.state is not State.CLOSED:
            self.why_closed = why
            self.close()

    def _parse(self) -> None:
        """Cut frames out of what came."""
        buffer, at, end = self._buffer, 0, len(self._buffer)
        while end - at >= 4:
            size = int.from_bytes(buffer[at : at + 4], "big", signed=True)
            limit = FRAME_BYTES_MAX if self.state is not State.NEW else CONNECT_BYTES_MAX
            if not 0 <= size <= limit:
                raise Malformed(f"a frame of {size} bytes")
            if end - at - 4 < size:
                break
            frame = bytes(buffer[at + 4 : at + 4 + size])
            at += 4 + size
            self._take(frame)
            if self.state is State.CLOSED:
                break
        if at:
            del buffer[:at]

    def _take(self, frame: bytes) -> None:
        self.received_count += 1
        if self.state is State.NEW:
            self.state = State.CONNECTING
            self._host.connect(self, requests.connect(frame))
            return
        if len(frame) < _HEADER.size:
            raise Malformed("a request without a header")
        xid, op = _HEADER.unpack_from(frame)
        self.last_op = op
        if op == codes.PING and xid == codes.PING_XID and self.state is State.OPEN:
            self.send(replies.reply(xid, self._host.zxid, codes.OK))
            return
        self._queue.append((xid, op, frame))
        self._queued_bytes += len(frame)

    def _step(self) -> bool:
        """Answer the next request, or hand it in; False when it has to wait."""
        if not self._queue or self.is_blocked or self.state is not State.OPEN:
            return False
        xid, op, frame = self._queue[0]
        request = self._head
        if request is None:
            request = self._head = requests.decode(op, frame, _HEADER.size)
        is_write = isinstance(request, ChangeNodes | CloseSession)
        if self._writes and not is_write:
            return False
        self._pop()
        if is_write:
            self._hand_in(xid, request)
        else:
            self._answer(xid, request)
        return True

    def _pop(self) -> None:
        _, _, frame = self._queue.popleft()
        self._queued_bytes -= len(frame)
        self._head = None

    def _hand_in(self, xid: int, request: Request) -> None:
        session = self.session
        assert session is not None, "a connection without a session is not open"
        self._writes += 1
        if isinstance(request, ChangeNodes):
            self._host.submit(ServedMulti(self, session, xid, request))
        else:
            session.is_closing = True
            self._drop_queue()
            self._host.submit(EndOfSession(session, self, xid))

    def _drop_queue(self) -> None:
        self._queue.clear()
        self._queued_bytes = 0
        self._head = None

    def _finish(self) -> None:
        """Have the writes done that are still queued; nobody hears how they went."""
        if self.session is None:
            return
        while self._queue:
            xid, op, frame = self._queue[0]
            request = self._head or requests.decode(op, frame, _HEADER.size)
            self._pop()
            if isinstance(request, ChangeNodes | CloseSession):
                self._hand_in(xid, request)
            elif isinstance(request, Auth):
                self._host.authenticate(self, request)
            elif isinstance(request, Refusal) and request.closes:
                self._drop_queue()

    def _answer(self, xid: int, request: Request) -> None:
        zxid = self._host.zxid
        if isinstance(request, Refusal):
            told = zxid if request.zxid is None else request.zxid
            self.send(replies.reply(xid, told, request.code, request.body))
            if request.closes:
                self._drop_queue()
                self.close()
            return
        if isinstance(request, Auth):
            self._answer_auth(xid, request)
            return
        answer = self._found(request)
        if isinstance(answer, int):
            self.send(replies.reply(xid, zxid, answer))
        else:
            self.send(replies.reply(xid, zxid, codes.OK, answer))

    def _answer_auth(self, xid: int, request: Auth) -> None:
        is_known = self._host.authenticate(self, request)
        self.send(replies.reply(xid, 0, codes.OK if is_known else codes.AUTH_FAILED))
        if not is_known:
            self._drop_queue()
            self.close()

    def _found(self, request: Request) -> reads.Answer:
        tree, caller, watches = self._host.tree, self.caller, self._host.watches
        match request:
            case GetData():
                answer = reads.get_data(tree, caller, request)
            case Exists():
                answer = reads.exists(tree, caller, request)
            case GetChildren():
                answer = reads.get_children(tree, caller, request)
            case MultiRead():
                return reads.multi_read(tree, caller, request)
            case GetAcl():
                return reads.get_acl(tree, caller, request)
            case Sync():
                return reads.sync(tree, caller, request)
            case CountBelow():
                return reads.count_below(tree, caller, request)
            case WhoAmI():
                return reads.who_am_i(tree, caller, request)
            case GetEphemerals():
                assert self.session is not None, "a connection without a session is not open"
                return reads.get_ephemerals(tree, self.session.id, request)
            case AddWatch() | RemoveWatches() | CheckWatches():
                return reads.watch(watches, self, request)
            case SetWatches():
                for event in reads.watch_again(tree, caller, watches, self, request):
                    self.send(event)
                return b""
            case Nothing():
                return b""
            case _:
                raise Malformed(f"{type(request).__name__} is nothing to read")
        if request.watch:
            reads.watched_read(watches, self, request, answer)
        return answer


Session = ServedSession[Pipeline]


class ServedWrite(Write):
    """A write of a session, for which a connection may wait."""

    __slots__ = ("pipeline", "session", "xid")

    def __init__(self, session: Session, pipeline: Pipeline | None = None, xid: int = 0) -> None:
        super().__init__()
        self.session = session
        self.pipeline = pipeline
        self.xid = xid

    def conclude(self, failure: BaseException | None) -> None:
        """The server tells the connection, for events and replies have one order."""


class ServedMulti(ServedWrite):
    """Operations of a connection."""

    __slots__ = ("_caller", "change", "results", "shown")

    def __init__(self, pipeline: Pipeline, session: Session, xid: int, change: ChangeNodes) -> None:
        super().__init__(session, pipeline, xid)
        self.change = change
        self.results: Sequence[Result] = ()
        self.shown: Sequence[Entry | None] = ()
        self._caller = pipeline.caller  # as it was when the request came

    @property
    def ops_count(self) -> int:  # type: ignore[override]
        return len(self.change.ops)

    def draft(self, draft: Draft, now_ms: int) -> bool:
        if self.session.has_ended:
            return False
        self.results = draft.multi(
            self.change.ops, owner=self.session.id, now_ms=now_ms, caller=self._caller
        )
        self.shown = draft.shown
        return True


class StartOfSession(ServedWrite):
    """A session that is to outlive the process, or its new time-out."""

    def draft(self, draft: Draft, now_ms: int) -> bool:
        if self.session.has_ended:
            return False
        draft.open_session(self.session.id, self.session.timeout_ms)
        return True


class EndOfSession(ServedWrite):
    """The end of a session: closed by its owner, or unheard of for too long."""

    is_end = True

    def draft(self, draft: Draft, now_ms: int) -> bool:
        self.session.has_ended = True
        draft.end_session(self.session.id)
        return True
