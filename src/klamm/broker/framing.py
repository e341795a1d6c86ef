"""Frames out of a stream, in one buffer that is used again and again.

A frame is a four-byte size and that many bytes. The buffer grows with what has arrived, never with
what a size claims, so a liar costs no memory. A view of a frame is good until `make_room`.
"""

from __future__ import annotations

import struct
from typing import Final

from klamm.model.errors import ProtocolError

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
# A larger buffer is given back once its frame has been dealt with.
_SIZE_KEPT: Final = 2 * 1024 * 1024
# A buffer made for one frame is this much larger: were it full, reading would have to be paused
# while the frame is served, and resumed after.
_SLACK: Final = 4096

_TLS_HELLO: Final = 0x1603  # a handshake record of TLS, whichever version
_HTTP_WORDS: Final = frozenset({b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"CONN"})

_read_size: Final = struct.Struct(">I").unpack_from
_read_key: Final = struct.Struct(">h").unpack_from


def _strange_size(size: int) -> str:
    """What to say of a size that cannot be: often it is another protocol's first word."""
    if size >> 16 == _TLS_HELLO:
        return "it speaks TLS, and this port does not; the client needs security.protocol=PLAINTEXT"
    if size.to_bytes(4, "big") in _HTTP_WORDS:
        return "it speaks HTTP, and this is a port for Kafka clients"
    return f"a frame cannot have {size} bytes"


class FrameBuffer:
    """The bytes of one connection that have arrived and not been dealt with."""

    __slots__ = ("_buffer", "_end", "_frame_size_max", "_start")

    def __init__(self, frame_size_max: int) -> None:
        self._frame_size_max = frame_size_max
        self._buffer = memoryview(bytearray(_SIZE_MIN))
        self._start = 0  # of the first frame not handed out
        self._end = 0  # of what has arrived

    def space(self) -> memoryview:
        """Where the next bytes go; there is some unless `is_full`."""
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
        if not 0 < size <= self._frame_size_max:
            raise ProtocolError(_strange_size(size))
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
        """How many bytes wait to be dealt with."""
        return self._end - self._start

    @property
    def capacity(self) -> int:
        """How much memory this takes."""
        return len(self._buffer)

    def make_room(self) -> None:
        """Make sure of space for the next read. Views of frames handed out are void now."""
        kept, start, end = self._buffer, self._start, self._end
        capacity = len(kept)
        if end == capacity < _SIZE_BUSY:
            capacity = min(_GROWTH * capacity, _SIZE_BUSY)
        elif start == end and capacity > _SIZE_KEPT:
            capacity = _SIZE_BUSY
        elif start == 0 and end == capacity:
            # Doubling: half of the frame has really arrived when the other half gets its place.
            capacity = min((self._frame_size() or 0) + _SLACK, 2 * capacity)
        if capacity != len(kept):
            self._buffer = memoryview(bytearray(capacity))
        elif start == 0:
            return
        waiting = end - start
        if waiting:
            self._buffer[:waiting] = kept[start:end]
        self._start, self._end = 0, waiting

    def shrink(self) -> None:
        """Give back the memory of a connection that has gone quiet."""
        if self._end == 0 and len(self._buffer) > _SIZE_MIN:
            self._buffer = memoryview(bytearray(_SIZE_MIN))

    def _frame_size(self) -> int | None:
        """The size of the next frame, prefix included, once its prefix has arrived."""
        start = self._start
        if self._end - start < SIZE_PREFIX:
            return None
        (size,) = _read_size(self._buffer, start)
        return SIZE_PREFIX + int(size)
