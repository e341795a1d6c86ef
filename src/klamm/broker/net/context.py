"""The context of a request: the client, its connection and its API version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from klamm.broker.net.peer import Peer
from klamm.broker.net.stopwatch import Stopwatch
from klamm.model.text import printable
from klamm.protocol.frames import RequestHeader

_CLIENT_ID_TOLD_MAX: Final = 100


@dataclass(slots=True)
class RequestContext:
    """The facts a handler may know of a request besides its body."""

    header: RequestHeader
    peer: Peer
    stopwatch: Stopwatch | None = None  # where somebody asks how long requests take

    @property
    def version(self) -> int:
        return self.header.api_version

    @property
    def client_id(self) -> str | None:
        return self.header.client_id

    @property
    def principal(self) -> str:
        """The caller as rules and quotas know it, such as `User:alice`."""
        return self.peer.principal

    @property
    def by_token(self) -> bool:
        """Whether the caller logged in by a delegation token."""
        return self.peer.by_token

    @property
    def asked_by(self) -> str:
        """The requester in words, for those who want to know later who did it."""
        client = printable((self.client_id or "?")[:_CLIENT_ID_TOLD_MAX])
        if self.peer.has_proven:
            return f"a broker at {self.client_host} for client {client}"
        return f"{printable(self.principal)} (client {client} at {self.client_host})"

    @property
    def client_host(self) -> str:
        return self.peer.client_host

    @property
    def listener(self) -> str:
        return self.peer.listener
