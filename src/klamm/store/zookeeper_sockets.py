"""kazoo's threads, with fewer system calls for each thing that ZooKeeper says.

kazoo makes a selector for every wait, and waits twice for each answer or event: for its length and
for the rest. That is a dozen system calls; when a controller falls, every standby hears of each
partition that changes, and they are most of what it does. Here a wait is one `poll`, and what a
socket has is read in one go.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Sequence
from typing import Any, Final

from klamm.installing import install_command
from klamm.model.errors import UsageError

try:
    from kazoo.handlers.threading import SequentialThreadingHandler
except ModuleNotFoundError as missing:
    raise UsageError(f"ZooKeeper needs kazoo: {install_command('zookeeper')}") from missing

_READ_AHEAD: Final = 64 * 1024
_READABLE: Final = select.POLLIN | select.POLLHUP | select.POLLERR | select.POLLNVAL
_WRITABLE: Final = select.POLLOUT | select.POLLHUP | select.POLLERR | select.POLLNVAL

Ready = tuple[list[Any], list[Any], list[Any]]


class QuickHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """Waits and connects on behalf of kazoo."""

    def create_connection(self, *args: Any, **options: Any) -> socket.socket:
        return ReadAheadSocket(self.connect(*args, **options))

    def connect(self, *args: Any, **options: Any) -> socket.socket:
        """A connection as kazoo makes it."""
        plain: socket.socket = super().create_connection(*args, **options)
        return plain

    def select(
        self,
        readers: Sequence[Any],
        writers: Sequence[Any],
        _: Sequence[Any],
        timeout: float | None = None,
    ) -> Ready:
        return wait(readers, writers, timeout)


def wait(readers: Sequence[Any], writers: Sequence[Any], timeout: float | None) -> Ready:
    """Those that can be read and written, as `select.select` tells it.

    One that has read ahead can be read, whatever the system says of its socket.
    """
    ahead = [one for one in readers if _has_ahead(one)]
    poll = select.poll()
    by_number: dict[int, Any] = {}
    for one in readers:
        by_number[one.fileno()] = one
        poll.register(one, select.POLLIN)
    for one in writers:
        by_number[one.fileno()] = one
        # kazoo never waits for both of one socket.
        poll.register(one, select.POLLOUT)
    wait_ms = 0 if ahead else None if timeout is None else max(int(timeout * 1000), 1)
    found = {by_number[number]: happened for number, happened in poll.poll(wait_ms)}
    return (
        [one for one in readers if one in ahead or found.get(one, 0) & _READABLE],
        [one for one in writers if found.get(one, 0) & _WRITABLE],
        [],
    )


def _has_ahead(one: Any) -> bool:
    pending = getattr(one, "pending", None)
    return pending is not None and pending() > 0


class ReadAheadSocket(socket.socket):
    """A socket that takes more from the system than it is asked for."""

    def __init__(self, plain: socket.socket) -> None:
        timeout = plain.gettimeout()
        super().__init__(plain.family, plain.type, plain.proto, fileno=plain.detach())
        self.settimeout(timeout)
        self._ahead = memoryview(b"")

    def pending(self) -> int:
        """The number of bytes that can be had without the system; kazoo asks as for TLS."""
        return len(self._ahead)

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        if not self._ahead:
            self._ahead = memoryview(super().recv(max(size, _READ_AHEAD), flags))
        part, self._ahead = self._ahead[:size], self._ahead[size:]
        return bytes(part)
