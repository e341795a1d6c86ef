"""Guards of listeners: whoever comes through one has to be somebody.

A listener without a guard takes everybody for `User:ANONYMOUS`. One with TLS shows a certificate,
and may ask for one. One with SASL puts a gate before the router: until a caller has logged in, the
gate answers, and frames are small.
"""

from __future__ import annotations

import ssl
from typing import Protocol

from klamm.broker.net.peer import Answer, Peer, Route
from klamm.model.errors import Refused


class Gate(Protocol):
    """The login of one connection, and what guards it afterwards."""

    @property
    def frame_size_max(self) -> int:
        """The longest frame of a caller that has not logged in."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether the caller has logged in."""
        ...

    def route(self, peer: Peer, frame: memoryview) -> Answer:
        """The answer to a frame: the gate's own, or that of the router behind it."""
        ...

    def refused(self, why: str) -> float:
        """A frame could not be read; returns for how many seconds the end is put off."""
        ...

    def close(self) -> None:
        """The connection is gone."""
        ...


class Guard(Protocol):
    """The guard of one listener."""

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The context for the next handshake; None where the listener speaks no TLS."""
        ...

    def principal(self, certificate: bytes | None) -> str | Refused:
        """The caller that shows this certificate, in DER, or none; where there is no gate."""
        ...

    def gate(self, route: Route) -> Gate | None:
        """A gate before this router, for one connection; None where TLS is all."""
        ...

    def handshake_failed(self, address: str, fault: OSError) -> None:
        """Somebody came and there was no handshake."""
        ...
