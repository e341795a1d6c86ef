"""The alert that tells a client why its handshake failed.

OpenSSL writes it, and asyncio closes the socket without sending it: the client would see a broken
connection and come again for ever, instead of saying that its certificate has expired.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import Any, cast


class LastWord:
    """A context of TLS for one handshake on one socket."""

    __slots__ = ("_accepted", "_real")

    def __init__(self, accepted: socket.socket, context: ssl.SSLContext) -> None:
        self._accepted = accepted
        self._real = context

    @property
    def context(self) -> ssl.SSLContext:
        """The context to shake hands with. All that asyncio asks of one is `wrap_bio`."""
        return cast(ssl.SSLContext, self)

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, **more: Any) -> Any:
        """A context as it is; the first failure of a handshake is told to the other side."""
        made: Any = self._real.wrap_bio(incoming, outgoing, **more)
        shake = made.do_handshake

        def do_handshake() -> None:
            try:
                shake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError:
                self._send(outgoing.read())
                raise
            del made.do_handshake  # its own again, and no circle of references is left

        made.do_handshake = do_handshake
        return made

    def _send(self, alert: bytes) -> None:
        """Send an alert, if the socket takes it at once."""
        with contextlib.suppress(OSError):
            self._accepted.send(alert, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
