"""Frames out of a stream, in one buffer that is used again and again.

A frame is a four-byte size and that many bytes. The buffer grows with what has arrived, never with
what a size claims, so a liar costs no memory; a frame that is too large for its API is refused with
its first six bytes. A view of a frame is good until `make_room`.

A connection that sends large frames keeps the place of the last one for the next, until it is
quiet: new memory for each of them costs more than all that is done with the bytes. What is kept so
is bounded for the whole process.

The buffers of all connections share a `FrameMemory`. When it is used up, a buffer that would only
be more comfortable stays as it is, and a frame that does not fit waits in the client's own socket
until others are done. One at a time may grow beyond, so that not all wait for each other; and while
somebody waits, the largest frame that has been on its way for too long is given up.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from time import monotonic
from typing import Final

from klamm.model.errors import ProtocolError
from klamm.protocol.bounds import Bounds, title_of

SIZE_PREFIX: Final = 4
# Most connections of a large number are quiet: they ask a few small things and wait.
_SIZE_MIN: Final = 4 * 1024
# A client that fills the buffer in one go has more to say: it gets a larger one, up to this. A read
# then takes many small frames; with a quarter of it, a frame of 16 KB costs a fifth more.
_SIZE_BUSY: Final = 512 * 1024
_GROWTH: Final = 4
# While the next frame's size is unknown this much is read at most, however large the buffer is: it
# may end in the first bytes of a large frame, which have to be moved.
_READ_AHEAD: Final = _SIZE_BUSY
# A frame of more than this is read up to its end and no further, so that nothing is moved behind
# it; the end of a smaller one is moved for less than a read costs.
_LARGE_FRAME: Final = 64 * 1024
# A larger buffer is given back once its frame has been dealt with, unless there is room among those
# that are kept: each up to the first size, all of the process together up to the second.
_SIZE_KEPT: Final = 2 * 1024 * 1024
_PLACE_KEPT_MAX: Final = 16 * 1024 * 1024
PLACES_KEPT_MAX: Final = 64 * 1024 * 1024
# A buffer made for one frame is this much larger: were it full, reading would have to be paused
# while the frame is served, and resumed after.
_SLACK: Final = 4096
# While others wait for memory, a frame may be on its way for so long, and the others look so often.
_UNFINISHED_S_MAX: Final = 5.0
_LOOK_S: Final = 1.0

_TLS_HELLO: Final = 0x1603  # a handshake record of TLS, whichever version
_HTTP_WORDS: Final = frozenset({b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"CONN"})

_read_size: Final = struct.Struct(">I").unpack_from
_read_key: Final = struct.Struct(">h").unpack_from


class _Kept:
    """A share of what all buffers may keep, given back with the last reference to it."""

    __slots__ = ("size",)
    total = 0

    def __init__(self, size: int) -> None:
        self.size = size
        _Kept.total += size

    def __del__(self) -> None:
        _Kept.total -= self.size


class FrameMemory:
    """The memory that the buffers of all connections may use together."""

    def __init__(self, bytes_max: int, clock: Callable[[], float] = monotonic) -> None:
        self._bytes_max = bytes_max
        self._clock = clock
        self._taken = 0
        self._unfinished: dict[FrameBuffer, float] = {}  # large frames, and since when
        self._waiting: dict[FrameBuffer, None] = {}  # the first is the next
        self._first: FrameBuffer | None = None  # it may grow beyond the limit
        self._holders: set[FrameBuffer] = set()  # those that have more than everybody has
        self._look: asyncio.TimerHandle | None = None

    @property
    def taken(self) -> int:
        """The number of bytes in use."""
        return self._taken

    @property
    def is_plentiful(self) -> bool:
        """Whether nobody waits, and nobody has had to grow beyond the limit."""
        return not self._waiting and self._taken <= self._bytes_max

    @property
    def waiting_count(self) -> int:
        """The number of connections that wait for memory."""
        return len(self._waiting)

    def take(self, buffer: FrameBuffer, size: int, *, is_needed: bool) -> bool:
        """Whether a buffer may grow by so much. One that needs it is called when it may."""
        if not is_needed:
            if self._waiting or self._taken + size > self._bytes_max:
                return False
            return self._give(buffer, size)
        self._unfinished.setdefault(buffer, self._clock())
        if self._taken + size > self._bytes_max:
            self._reclaim(buffer)
        if self._taken + size <= self._bytes_max:
            return self._give(buffer, size)
        if self._first is None or self._first is buffer:
            self._first = buffer
            return self._give(buffer, size)
        self._waiting[buffer] = None
        if self._look is None:
            self._look = asyncio.get_running_loop().call_later(_LOOK_S, self._give_up_one)
        return False

    def _give(self, buffer: FrameBuffer, size: int) -> bool:
        self._taken += size
        self._holders.add(buffer)
        self._waiting.pop(buffer, None)
        return True

    def _reclaim(self, buffer: FrameBuffer) -> None:
        """Take back what others have for their comfort and do not use at the moment."""
        for other in list(self._holders):
            if other is not buffer:
                other.shrink()

    def finished(self, buffer: FrameBuffer) -> None:
        """A frame is there as a whole, and has been dealt with."""
        self._unfinished.pop(buffer, None)
        if self._first is buffer:
            self._first = None
            self._wake()

    def give_back(self, buffer: FrameBuffer, size: int) -> None:
        """A buffer is smaller by so much; those that wait go on."""
        self._taken -= size
        if self._first is buffer:
            self._first = None
        if buffer.capacity - size <= _SIZE_MIN:
            self._holders.discard(buffer)
        self._wake()

    def left(self, buffer: FrameBuffer, size: int) -> None:
        """A connection is gone, and its buffer with it."""
        self._waiting.pop(buffer, None)
        self._unfinished.pop(buffer, None)
        self._holders.discard(buffer)
        self.give_back(buffer, size)

    def _wake(self) -> None:
        """Those that wait try again, in their order, until one has to wait on."""
        for buffer in list(self._waiting):
            del self._waiting[buffer]
            buffer.on_memory()
            if buffer in self._waiting:
                # It stays the next one.
                self._waiting = {buffer: None, **self._waiting}
                return

    def _give_up_one(self) -> None:
        """Close the largest of those that have been on their way for too long."""
        self._look = None
        if not self._waiting:
            return
        self._look = asyncio.get_running_loop().call_later(_LOOK_S, self._give_up_one)
        long_ago = self._clock() - _UNFINISHED_S_MAX
        late = [b for b, since in self._unfinished.items() if since <= long_ago]
        if late:
            max(late, key=lambda buffer: buffer.capacity).on_given_up()


def _strange_size(size: int) -> str:
    """The message about an impossible size: often it is another protocol's first word."""
    if size >> 16 == _TLS_HELLO:
        return "it speaks TLS, and this port does not; the client needs security.protocol=PLAINTEXT"
    if size.to_bytes(4, "big") in _HTTP_WORDS:
        return "it speaks HTTP, and this is a port for Kafka clients"
    return f"a frame cannot have {size} bytes"


class FrameBuffer:
    """The bytes of one connection that have arrived and not been dealt with."""

    __slots__ = (
        "__weakref__",
        "_bounds",
        "_buffer",
        "_end",
        "_free_size_max",
        "_is_long",
        "_kept",
        "_memory",
        "_start",
        "_whole",
        "on_given_up",
        "on_memory",
    )

    def __init__(self, limits: Bounds | int, memory: FrameMemory | None = None) -> None:
        """The bounds of requests; for frames of another kind, their greatest length."""
        self.limit(limits)
        self._memory = memory
        self._is_long = False  # the next frame has had to ask for memory
        self.on_memory: Callable[[], None] = _nothing  # there may be space now
        self.on_given_up: Callable[[], None] = _nothing  # the memory is needed for others
        self._buffer = memoryview(bytearray(_SIZE_MIN))
        # The place of a whole large frame, of which `_buffer` is the part that may be filled. The
        # system gives memory to it page by page as bytes arrive, and nothing has to be moved.
        self._whole: memoryview | None = None
        self._kept: _Kept | None = None  # where that place outlives its frame
        self._start = 0  # of the first frame not handed out
        self._end = 0  # of what has arrived

    def limit(self, limits: Bounds | int) -> None:
        """Hold frames to other limits from the next one on."""
        if isinstance(limits, Bounds):
            self._bounds = limits
            # Up to this a frame may be for any API.
            self._free_size_max = limits.bytes_of_any
        else:
            self._bounds = Bounds(frame_bytes=limits)
            self._free_size_max = limits

    def space(self) -> memoryview:
        """The space for the next bytes; there is some unless `is_full`."""
        start, end = self._start, self._end
        if end - start >= SIZE_PREFIX:
            (size,) = _read_size(self._buffer, start)
            frame_end = start + SIZE_PREFIX + size
            if size > _LARGE_FRAME and frame_end > end:
                return self._buffer[end:frame_end]
        return self._buffer[end : end + _READ_AHEAD]

    def received(self, count: int) -> None:
        self._end += count

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its size; `ProtocolError` when its size cannot be."""
        start = self._start + SIZE_PREFIX
        if start > self._end:
            return None
        (size,) = _read_size(self._buffer, self._start)
        if not 0 < size <= self._free_size_max:
            self._check_large(size)
        end = start + size
        if end > self._end:
            return None
        self._start = end
        return self._buffer[start:end]

    @property
    def is_full(self) -> bool:
        return self._end == len(self._buffer)

    @property
    def has_frame(self) -> bool:
        """Whether another whole frame waits."""
        size = self._frame_size()
        return size is not None and self._start + size <= self._end

    @property
    def next_key(self) -> int | None:
        """The number that the next frame begins with, which says what is asked."""
        at = self._start + SIZE_PREFIX
        return int(_read_key(self._buffer, at)[0]) if at + 2 <= self._end else None

    @property
    def waiting_size(self) -> int:
        """The size that the next frame claims; 0 while even that has not arrived."""
        return (self._frame_size() or SIZE_PREFIX) - SIZE_PREFIX

    @property
    def waiting(self) -> int:
        """The number of bytes that wait to be processed."""
        return self._end - self._start

    @property
    def capacity(self) -> int:
        """The memory that this takes."""
        return len(self._buffer)

    @property
    def is_large(self) -> bool:
        """Whether the place of a large frame is kept."""
        return self._whole is not None

    def make_room(self) -> bool:
        """Make sure of space for the next read. Views of frames handed out are void now.

        False when there is none: then `on_memory` is called when there may be some.
        """
        kept, start, end = self._buffer, self._start, self._end
        capacity = len(kept)
        needed = False
        if start and self._is_long and self._memory is not None:
            self._is_long = False
            self._memory.finished(self)
        if end == capacity < _SIZE_BUSY:
            capacity = min(_GROWTH * capacity, _SIZE_BUSY)
            needed = start == 0
        elif start == end and capacity > _SIZE_KEPT and not self._keep_place():
            capacity = _SIZE_BUSY
        elif start == 0 and end == capacity:
            # Doubling: half of the frame has really arrived when the other half gets its place.
            capacity = min((self._frame_size() or 0) + _SLACK, 2 * capacity)
            needed = True
        if capacity != len(kept):
            if not self._resize(capacity, needed=needed):
                if needed:
                    return False
                if start == 0:
                    return True
        elif start == 0:
            return True
        waiting = end - start
        if (waiting and self._buffer.obj is not kept.obj) or (waiting and start):
            self._buffer[:waiting] = kept[start:end]
        self._start, self._end = 0, waiting
        return True

    def _resize(self, capacity: int, *, needed: bool) -> bool:
        """Change places, as far as there is memory for it; what was kept has yet to be moved."""
        memory, growth = self._memory, capacity - len(self._buffer)
        if memory is not None:
            if growth < 0:
                memory.give_back(self, -growth)
            else:
                self._is_long = self._is_long or needed
                if not memory.take(self, growth, is_needed=needed):
                    return False
        if capacity <= _SIZE_KEPT:
            self._whole = self._kept = None
            self._buffer = memoryview(bytearray(capacity))
        else:
            if self._whole is None or len(self._whole) < capacity:
                self._whole, self._kept = self._new_place(), None
            self._buffer = self._whole[:capacity]
        return True

    def _new_place(self) -> memoryview:
        """A place for the next frame, and for a larger one after it: only what is used counts."""
        size = (self._frame_size() or 0) + _SLACK
        return _own_pages(max(size, min(2 * size, _PLACE_KEPT_MAX)))

    def _keep_place(self) -> bool:
        """Whether the place of the frame that was dealt with stays for the next one."""
        size, kept = len(self._buffer), self._kept
        is_plentiful = self._memory is None or self._memory.is_plentiful
        if is_plentiful and kept is not None and kept.size == size:
            return True
        self._kept = kept = None  # its share counts no more
        if not is_plentiful or size > _PLACE_KEPT_MAX or _Kept.total + size > PLACES_KEPT_MAX:
            return False
        self._kept = _Kept(size)
        return True

    def shrink(self) -> None:
        """Give back the memory of a connection that has gone quiet."""
        if self._end == 0 and len(self._buffer) > _SIZE_MIN:
            self._resize(_SIZE_MIN, needed=False)

    def close(self) -> None:
        """Give everything back: the connection is gone."""
        size = len(self._buffer) - _SIZE_MIN
        # A closed connection may be kept by what refers to it for a while; its bytes are not.
        self._buffer, self._whole, self._kept = memoryview(b""), None, None
        self._start = self._end = 0
        if self._memory is not None:
            memory, self._memory = self._memory, None
            memory.left(self, size)
        self.on_memory = self.on_given_up = _nothing

    def _check_large(self, size: int) -> None:
        """Refuse a frame that nobody may send, as soon as it is known whom it is for."""
        if not 0 < size <= self._bounds.frame_bytes:
            raise ProtocolError(_strange_size(size))
        key = self.next_key
        if key is None:
            return
        most = self._bounds.bytes_of(key)
        if size > most:
            raise ProtocolError(f"{title_of(key)} of {size} bytes; at most {most} are read")

    def _frame_size(self) -> int | None:
        """The size of the next frame, prefix included, once its prefix has arrived."""
        start = self._start
        if self._end - start < SIZE_PREFIX:
            return None
        (size,) = _read_size(self._buffer, start)
        return SIZE_PREFIX + int(size)


def _own_pages(size: int) -> memoryview:
    """A place of this size that takes no memory before it is filled."""
    return memoryview(mmap(-1, size, MAP_PRIVATE | MAP_ANONYMOUS))


def _nothing() -> None:
    """Nobody is to be told."""
