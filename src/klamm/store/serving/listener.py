"""The sockets of a served store: bytes in, bytes out, and nothing decided.

A client that does not read is not answered any more, and is dropped when events for it pile up; one
that does not say who it is within ten seconds is dropped too.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from klamm.repeats import limited
from klamm.store.access import Caller
from klamm.store.serving import words
from klamm.store.serving.pipeline import Host, Pipeline, State

_CONNECT_WITHIN_S: Final = 10.0
_CLOSE_WITHIN_S: Final = 5.0
_OUT_BYTES_HIGH: Final = 4 << 20
_OUT_BYTES_MAX: Final = 64 << 20
_WORD_SIZE: Final = 4

log = limited(logging.getLogger(__name__), first=1)


class Reception(Host, Protocol):
    """The services that sockets need of the server."""

    def arrived(self, connection: Connection) -> bool:
        """Whether there is room for one more connection."""
        ...

    def left(self, connection: Connection) -> None: ...

    def newcomer(self, address: str) -> Caller:
        """The caller behind an address that has said nothing yet."""
        ...

    def facts(self, word: bytes) -> words.ServerFacts: ...

    def counted(self, connection: Connection, outstanding_more: int) -> bool:
        """Count requests that wait; whether those who have some are to send no more for now."""
        ...


class Connection(asyncio.Protocol):
    """One socket."""

    def __init__(self, reception: Reception) -> None:
        self._reception = reception
        self._loop = asyncio.get_running_loop()
        self._first = b""  # the first bytes, until there are enough to tell a word from a length
        self._is_word_possible = True
        self._is_reading = True
        self._outstanding = 0  # as it was last counted
        self._turn: asyncio.Handle | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self.transport: asyncio.Transport
        self.pipeline: Pipeline
        self.peer = ""
        self.is_held = False  # the server has too much to do for all

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=_OUT_BYTES_HIGH)
        name = transport.get_extra_info("peername") or ("", 0)
        address, port = name[:2]
        self.peer = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        caller = self._reception.newcomer(address)
        self.pipeline = Pipeline(self._reception, address, caller)
        self._deadline = self._loop.call_later(_CONNECT_WITHIN_S, self._too_late)
        if not self._reception.arrived(self):
            self.pipeline.break_off("there are too many")
            self.flush()

    def data_received(self, data: bytes) -> None:
        if self._is_word_possible:
            self._first += data
            if len(self._first) < _WORD_SIZE:
                return
            data, self._first = self._first, b""
            self._is_word_possible = False
            if data[:_WORD_SIZE] in words.WORDS:
                self._tell(data[:_WORD_SIZE])
                return
        self.pipeline.feed(data)
        self.go_on()

    def go_on(self) -> None:
        """Answer what can be answered now; what is left has its turn behind the others'."""
        if self.pipeline.advance() and self._turn is None:
            self._turn = self._loop.call_soon(self._next_turn)
        self.flush()

    def flush(self) -> None:
        """Send what there is, and see to it that no more comes in than can go out."""
        pipeline = self.pipeline
        if pipeline.out:
            self.transport.write(pipeline.taken())
            if self.transport.get_write_buffer_size() > _OUT_BYTES_MAX:
                pipeline.break_off("it does not read what it asked for")
                self._complain()
                self.transport.abort()
                return
        if pipeline.is_closed:
            self._leave()
            return
        waiting = pipeline.outstanding
        self.is_held = self._reception.counted(self, waiting - self._outstanding) and waiting > 0
        self._outstanding = waiting
        self._read_on(not (pipeline.is_full or self.is_held))

    def pause_writing(self) -> None:
        self.pipeline.is_blocked = True
        self._read_on(False)

    def resume_writing(self) -> None:
        self.pipeline.is_blocked = False
        self.go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_timers()
        if not self.pipeline.is_closed:
            self.pipeline.close()
        self._reception.counted(self, -self._outstanding)
        self._outstanding = 0
        self._reception.left(self)

    def _next_turn(self) -> None:
        self._turn = None
        self.go_on()

    def _read_on(self, wanted: bool) -> None:
        if wanted != self._is_reading and not self.transport.is_closing():
            self._is_reading = wanted
            if wanted:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()

    def _tell(self, word: bytes) -> None:
        """Answer a word, in one piece, and hang up."""
        text = words.WORDS[word](self._reception.facts(word))
        self.transport.write(text.encode("utf-8", "replace"))
        self.pipeline.close()
        self._leave()

    def _too_late(self) -> None:
        if self.pipeline.state is State.NEW:
            self.pipeline.break_off("it did not say who it is")
            self.flush()

    def _leave(self) -> None:
        """Close the socket when all is sent; somebody who takes for ever does not keep it."""
        self._complain()
        if not self.transport.is_closing():
            self._forget_timers()
            self._deadline = self._loop.call_later(_CLOSE_WITHIN_S, self.transport.abort)
            self.transport.close()

    def _complain(self) -> None:
        if self.pipeline.why_closed:
            log.warning(
                "a client of the served store was hung up on",
                extra={"why": self.pipeline.why_closed, "peer": self.peer},
            )
            self.pipeline.why_closed = ""

    def _forget_timers(self) -> None:
        for timer in (self._deadline, self._turn):
            if timer is not None:
                timer.cancel()
        self._deadline = self._turn = None
