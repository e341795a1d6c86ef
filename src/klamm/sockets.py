"""The options of every TCP socket between a client and a broker, and between brokers.

Messages are written when they are complete, so none waits for more bytes (`TCP_NODELAY`).

Where both ends are on one machine there is no network to be spared. A congestion control that paces
its packets, BBR, waits on timers there for a bandwidth that nobody else wants: it halves what a
broker can send, and doubles what each byte costs both sides. Such a connection gets the plainest
control, which every Linux has; any other control is left as it is. Only the end that sends decides:
a client's own settings hold for what it produces.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Final

# Not every system lets one choose.
_CONGESTION: Final[int | None] = getattr(socket, "TCP_CONGESTION", None)
_NAME_SIZE_MAX: Final = 16
_PACING: Final = b"bbr"
_PLAIN: Final = b"reno"
_LOOPBACK: Final = ("127.", "::1", "::ffff:127.")


def tune(sock: socket.socket) -> None:
    """Set the options of a socket that is connected."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # The other end may have left, or the system forbid the choice: neither is a reason to stop.
    with contextlib.suppress(OSError):
        if _CONGESTION is not None and is_near(sock) and _is_paced(sock, _CONGESTION):
            sock.setsockopt(socket.IPPROTO_TCP, _CONGESTION, _PLAIN)


def is_near(sock: socket.socket) -> bool:
    """Whether both ends of a connection are on this machine."""
    here, there = sock.getsockname()[0], sock.getpeername()[0]
    return bool(here == there or (here.startswith(_LOOPBACK) and there.startswith(_LOOPBACK)))


def _is_paced(sock: socket.socket, option: int) -> bool:
    name = sock.getsockopt(socket.IPPROTO_TCP, option, _NAME_SIZE_MAX)
    return name.startswith(_PACING)
