"""One client's connection: frames in, replies out, in the same order, one request at a time.

The next frame is served only when the answer to the last one has been written, which gives order,
back-pressure and throttling for free; what a client pipelines meanwhile waits in the buffer, and
when that is full, in the client's own socket. A request that was routed may keep a view of its
frame until it is answered: nothing is moved before that.

There is one exception, for the sake of acks=all. A Produce whose records are in the log, and that
waits for nothing but the followers, does not keep the Produces behind it from being appended: so
followers fetch many batches at once instead of one. Their replies wait for each other.

All whole frames that a read has brought are served in one turn of the loop, and what can be said to
them at once is sent at once.

A connection that is held, because there are too many, is heard in one matter: whether it is a
broker's (`proof.py`). Whoever proves that is let in at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol, cast

from klamm import sockets
from klamm.broker.net.framing import FrameBuffer, FrameMemory
from klamm.broker.net.guard import Gate, Guard
from klamm.broker.net.peer import ANONYMOUS, BLANK, Memory, Route, Standing
from klamm.broker.net.promises import Alarm, Promise, Receipt
from klamm.broker.net.proof import REQUEST_SIZE_MAX, Challenge
from klamm.broker.net.replies import EncryptingSender, Reply, Sender
from klamm.model.errors import ProtocolError, Refused
from klamm.protocol.apis import ApiKey
from klamm.protocol.bounds import Bounds
from klamm.protocol.private import PrivateKey
from klamm.repeats import limited

log = limited(logging.getLogger(__name__))

_FOREVER_MS: Final = 10**12
# So many requests are served in one turn of the loop; then others have theirs.
_SERVED_AT_ONCE_MAX: Final = 64
# How many replies may be owed before a client has to wait.
_OWED_MAX: Final = 100
# What a broker needs at most to say who it is, before it is taken for one too many.
GRACE_S: Final = 0.5
_HEADER_SIZE_MAX: Final = 256


class Owner(Protocol):
    """The keeper of the list of connections."""

    def joined(self, connection: Connection) -> None: ...

    def left(self, connection: Connection) -> None: ...

    def proven(self, connection: Connection) -> None: ...

    def identified(self, connection: Connection) -> None: ...


class Connection(asyncio.BufferedProtocol):
    """One accepted socket."""

    def __init__(
        self,
        route: Route,
        owner: Owner,
        *,
        frame_size_max: Bounds | int,
        listener: str,
        memory: FrameMemory | None = None,
        guard: Guard | None = None,
    ) -> None:
        self.client_host = "?"
        self.listener = listener
        self.principal = ANONYMOUS
        self.by_token = False
        self.software = ""
        self.is_broker = False
        self.has_proven = False
        self.standing: Standing | None = None
        self.challenge: Challenge | None = None
        self.active_at = 0.0
        self.on_more: Callable[[], None] | None = None
        self._route = route
        self._owner = owner
        self._guard = guard
        self._gate: Gate | None = None
        self._frame_size_max = frame_size_max
        self._loop = asyncio.get_running_loop()
        self._frames = FrameBuffer(frame_size_max, memory)
        self._frames.on_memory = self._make_room
        self._frames.on_given_up = self._give_up
        self.alarm = Alarm(self._loop)
        self.memory: Memory = BLANK
        self._serving: asyncio.Future[Reply | Receipt] | Promise | None = None
        # What is said when it is its turn: replies to requests that were served out of turn.
        self._owed: list[Receipt | Reply] = []
        self._is_paying = False
        self._unmute: asyncio.TimerHandle | None = None
        self._is_held = False  # not let in yet; `_unmute` then is the end of that, if it has one
        self._may_speak = True  # False where whoever is no broker had better leave at once
        self._choked = False  # the client does not read its answers
        self._has_had_its_turn = False  # and has asked for more than was served in it
        self._paused = False
        self._transport: asyncio.Transport
        self._sender: Sender

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer_name = transport.get_extra_info("peername")
        if peer_name:
            self.client_host = peer_name[0]
        sockets.tune(transport.get_extra_info("socket"))
        is_encrypted = transport.get_extra_info("ssl_object") is not None
        kind = EncryptingSender if is_encrypted else Sender
        self._sender = kind(self._transport, on_sent=self._serve)
        self.active_at = self._loop.time()
        if self._guard is not None:
            self._be_guarded(self._guard)
        self._owner.joined(self)

    def _be_guarded(self, guard: Guard) -> None:
        """Find out who this is, by its certificate or behind a gate."""
        self._gate = guard.gate(self._route)
        if self._gate is not None:
            self._route = self._gate.route
            self._frames.limit(self._gate.frame_size_max)
            return
        tls = self._transport.get_extra_info("ssl_object")
        found = guard.principal(tls.getpeercert(binary_form=True) if tls is not None else None)
        if isinstance(found, Refused):
            self._refuse(found.why)
        else:
            self.principal = found

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.space()

    def buffer_updated(self, nbytes: int) -> None:
        self._frames.received(nbytes)
        self.active_at = self._loop.time()
        if self._is_held:
            self._hear_held()
            return
        if self._serving is None:
            self._serve()
            return
        if self.on_more is not None and self._frames.has_frame:
            self.on_more()
        self._make_room()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.left(self)
        self._frames.close()
        self.alarm.close()
        if self._gate is not None:
            self._gate.close()
        if self._unmute is not None:
            self._unmute.cancel()
        if self._serving is not None:
            self._serving.cancel()
        for owed in self._owed:
            if isinstance(owed, Receipt):
                owed.cancel()
        self._sender.cancel()

    def pause_writing(self) -> None:
        self._choked = True
        self._sender.pause()

    def resume_writing(self) -> None:
        self._choked = False
        self._sender.resume()
        self._serve()

    # Ours

    def mute(self, wait_ms: int) -> None:
        """Serve nothing for a while."""
        if self._unmute is not None:
            self._unmute.cancel()
        self._unmute = self._loop.call_later(wait_ms / 1000, self._unmuted)

    def hold(self, wait_ms: int = _FOREVER_MS) -> None:
        """Serve nobody but a broker until it is released, or for so long."""
        self._hold(wait_ms / 1000, self.release)

    def release(self) -> None:
        """Serve what has come meanwhile, and what comes."""
        self._is_held, self._may_speak = False, True
        if self._unmute is not None:
            self._unmute.cancel()
            self._unmuted()

    def turn_away(self, delay_ms: int) -> None:
        """Serve nobody but a broker, and close after a while."""
        self._may_speak = delay_ms / 1000 >= GRACE_S
        self._hold(max(delay_ms / 1000, GRACE_S), self._transport.close)

    def proven(self) -> None:
        """It has shown that it is a broker of this cluster."""
        self.has_proven = True
        if not self.is_broker:
            self.is_broker = True
            self._owner.proven(self)

    @property
    def is_stranger(self) -> bool:
        """Whether it has yet to say who it is."""
        return self._gate is not None and not self._gate.is_open

    def identified(self, principal: str, *, by_token: bool) -> None:
        """It has logged in, or once more: requests may be as long as they are."""
        self.principal, self.by_token, self.standing = principal, by_token, None
        self._frames.limit(self._frame_size_max)
        self._owner.identified(self)

    def _hold(self, wait_s: float, then: Callable[[], None]) -> None:
        if self._unmute is not None:
            self._unmute.cancel()
        self._is_held = True
        self._unmute = self._loop.call_later(wait_s, then)

    def _hear_held(self) -> None:
        """Whoever is held may log in and prove to be a broker; all else waits in the buffer."""
        frames = self._frames
        key, size = frames.next_key, frames.waiting_size
        is_proof = key == PrivateKey.PROVE and size <= REQUEST_SIZE_MAX + _HEADER_SIZE_MAX
        if is_proof or (self.is_stranger and key is not None):
            if self._serving is None and (frame := frames.next_frame()) is not None:
                self._serve_one(frame)
        elif key is not None and not self._may_speak:
            self._transport.close()
        self._make_room()

    def _serve_one(self, frame: memoryview) -> None:
        try:
            answer = self._route(self, frame)
        except ProtocolError as fault:
            self._refuse(str(fault))
            return
        if isinstance(answer, bytes):
            answer = Reply((answer,))
        if isinstance(answer, Reply):
            self._write(answer)
            self._sender.flush()
            return
        assert not isinstance(answer, Promise), "a login or a proof waits for nothing like that"
        self._serving = asyncio.ensure_future(answer)
        self._serving.add_done_callback(self._done)

    def close(self) -> None:
        """Let what was written go out, then close."""
        self._transport.close()

    def abort(self) -> None:
        """Drop the connection as a crash would."""
        self._transport.abort()

    @property
    def is_idle(self) -> bool:
        """Whether the client owes us a request, not we an answer."""
        return not self._is_busy and not self._owed

    @property
    def buffered(self) -> int:
        """The number of bytes that wait to be served."""
        return self._frames.waiting

    @property
    def capacity(self) -> int:
        """The memory that the buffer takes."""
        return self._frames.capacity

    def shrink(self) -> None:
        """Give back the memory of a connection that has gone quiet."""
        if not self._is_busy:
            self._frames.shrink()

    @property
    def _is_busy(self) -> bool:
        return (
            self._serving is not None
            or self._sender.is_busy
            or self._unmute is not None
            or self._choked
            or self._has_had_its_turn
            or (bool(self._owed) and not self._may_overtake())
        )

    def _may_overtake(self) -> bool:
        """Whether the next request may be served although earlier replies are still owed."""
        key = self._frames.next_key
        return len(self._owed) < _OWED_MAX and (key is None or key == ApiKey.PRODUCE)

    def _serve(self) -> None:
        """Serve what has arrived, until a request has to wait for something."""
        frames = self._frames
        for _ in range(_SERVED_AT_ONCE_MAX):
            if self._is_busy or self._transport.is_closing():
                break
            try:
                frame = frames.next_frame()
                if frame is None:
                    break
                answer = self._route(self, frame)
            except ProtocolError as fault:
                self._refuse(str(fault))
                return
            if isinstance(answer, bytes):
                if self._owed:
                    self._owed.append(Reply((answer,)))
                else:
                    self._sender.add_piece(answer)
            elif isinstance(answer, Reply):
                self._say(answer)
            elif isinstance(answer, Receipt):
                self._owed.append(answer)
                answer.then(self._kept)
            elif isinstance(answer, Promise):
                self._serving = answer
                answer.then(self._answered)
            else:
                self._serving = asyncio.ensure_future(answer)
                self._serving.add_done_callback(self._done)
        else:
            self._has_had_its_turn = True
            self._loop.call_soon(self._go_on)
        self._sender.flush()
        self._make_room()

    def _go_on(self) -> None:
        self._has_had_its_turn = False
        self._serve()

    def _done(self, serving: asyncio.Future[Reply | Receipt]) -> None:
        if serving.cancelled():
            self._serving = None
            return
        fault = serving.exception()
        assert fault is None or isinstance(fault, Exception), "the loop has raised all others"
        self._answered(fault or serving.result())

    def _answered(self, outcome: Reply | Receipt | Exception) -> None:
        self._serving = None
        if self._transport.is_closing():
            if isinstance(outcome, Receipt):
                outcome.cancel()
            return
        if isinstance(outcome, Receipt):
            self._owed.append(outcome)
            outcome.then(self._kept)
            if outcome.kept is not None:  # between the task's end and now
                self._kept(outcome.kept)
            self._serve()
        elif isinstance(outcome, Reply):
            self._say(outcome)
            self._serve()
        else:
            self._fail(outcome)

    def _say(self, reply: Reply) -> None:
        """Answer this, when it is its turn."""
        if self._owed:
            self._owed.append(reply)
        else:
            self._write(reply)

    def _kept(self, _: Reply | Exception) -> None:
        """A receipt is there; this turn of the loop may bring more of them."""
        if not self._is_paying:
            self._is_paying = True
            self._loop.call_soon(self._pay)

    def _pay(self) -> None:
        """Pay what is owed, up to the first that is not there yet."""
        self._is_paying = False
        owed = self._owed
        while owed and not self._transport.is_closing():
            first = owed[0]
            outcome = first.kept if isinstance(first, Receipt) else first
            if outcome is None:
                break
            del owed[0]
            if not isinstance(outcome, Reply):
                self._fail(outcome)
                return
            self._write(outcome)
        self._serve()

    def _fail(self, fault: Exception) -> None:
        if isinstance(fault, ProtocolError):
            self._refuse(str(fault))
        else:
            log.error("a request was left unanswered", exc_info=fault)
            self._transport.abort()

    def _refuse(self, why: str) -> None:
        if self._gate is not None and not self._gate.is_open:
            self._unmute_never(self._gate.refused(why))
            return
        log.warning("closing a connection", extra={"client": self.client_host, "why": why})
        self._sender.flush()
        self._transport.abort()

    def _unmute_never(self, after_s: float) -> None:
        """Leave somebody alone who could not log in, and close after a while."""
        if self._unmute is not None:
            self._unmute.cancel()
        self._unmute = self._loop.call_later(after_s, self._transport.abort)
        self._transport.pause_reading()

    def _make_room(self) -> None:
        """Before the next read: space for it, or no read at all while a request is served."""
        if self._transport.is_closing():
            return
        if not self._is_busy:
            has_room = self._frames.make_room()
            if self._paused and has_room:
                self._paused = False
                self._transport.resume_reading()
            elif not has_room and not self._paused:
                self._paused = True
                self._transport.pause_reading()
        elif self._frames.is_full and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def _give_up(self) -> None:
        """Others need the memory of a request that has been on its way for too long."""
        self._refuse("a large request took too long to arrive while others waited for memory")

    def _write(self, reply: Reply) -> None:
        """Say this; `_serve`, which comes next, sends it with what else there is to say."""
        self._sender.add(reply.parts)
        if reply.then_close:
            self._sender.flush()
            self._transport.close()
        elif reply.mute_ms > 0:
            self.mute(reply.mute_ms)

    def _unmuted(self) -> None:
        self._unmute = None
        self._serve()
