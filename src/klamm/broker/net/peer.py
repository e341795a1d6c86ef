"""Peers as routers and handlers know them, and what is said to a request of theirs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, Protocol

from klamm.broker.net.promises import Alarm, Promise, Receipt
from klamm.broker.net.proof import Challenge
from klamm.broker.net.replies import Reply
from klamm.security.authorization.authorizer import Permissions

ANONYMOUS: Final = "User:ANONYMOUS"


class Memory(Protocol):
    """The memory of a shortcut: the requests that a peer has sent so far."""

    def recognise(self, frame: memoryview) -> Any | None:
        """The known facts about the request in this frame; None if there are none."""
        ...


class Blank:
    """The memory of a peer that has sent nothing worth remembering."""

    def recognise(self, frame: memoryview) -> None:
        return None


BLANK: Final = Blank()


class Standing(NamedTuple):
    """The permissions of the principal that a connection speaks for."""

    name: str  # of the principal
    permissions: Permissions


class Peer(Protocol):
    """The facts a router may know of the connection a request came in on."""

    client_host: str
    listener: str
    principal: str  # who has logged in, such as `User:alice`
    by_token: bool  # and whether a delegation token spoke for it
    software: str  # what the client called itself in ApiVersions
    is_broker: bool  # of this cluster: it has proven that, or is taken for one
    has_proven: bool  # that it is a broker
    standing: Standing | None  # what it may do, once somebody has asked
    challenge: Challenge | None  # the proof that is under way
    alarm: Alarm  # for requests that are served: until when they wait
    memory: Memory
    # Called when another request arrives while one is served: some that only wait end early then.
    on_more: Callable[[], None] | None

    def proven(self) -> None:
        """It has shown that it is a broker of this cluster."""
        ...

    def identified(self, principal: str, *, by_token: bool) -> None:
        """It has logged in."""
        ...

    def close(self) -> None:
        """Let what was written go out, then close."""
        ...


# What is said to a request: bytes where there is nothing else to a reply, a reply, or one later.
Answer = bytes | Reply | Promise | Awaitable[Reply | Receipt]
Route = Callable[[Peer, memoryview], Answer]
