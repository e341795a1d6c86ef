"""The context of a request: the client, its connection and its API version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from klamm.broker.net.connection import Peer
from klamm.broker.net.stopwatch import Stopwatch
from klamm.protocol.frames import RequestHeader

ANONYMOUS: Final = "User:ANONYMOUS"


@dataclass(slots=True)
class RequestContext:
    """The facts a handler may know of a request besides its body."""

    header: RequestHeader
    peer: Peer
    principal: str = ANONYMOUS
    stopwatch: Stopwatch | None = None  # where somebody asks how long requests take

    @property
    def version(self) -> int:
        return self.header.api_version

    @property
    def client_id(self) -> str | None:
        return self.header.client_id

    @property
    def client_host(self) -> str:
        return self.peer.client_host

    @property
    def listener(self) -> str:
        return self.peer.listener
