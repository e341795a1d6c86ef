"""Callers as handlers see them, without a connection."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from klamm.broker.net.context import RequestContext
from klamm.protocol.frames import RequestHeader


def context(
    key: int = 0, principal: str = "User:alice", host: str = "10.0.0.1", **peer: Any
) -> RequestContext:
    """A request of this principal from there."""
    facts = {"is_broker": False, "has_proven": False, "standing": None, **peer}
    made: Any = SimpleNamespace(
        client_host=host, listener="PLAINTEXT", principal=principal, by_token=False, **facts
    )
    return RequestContext(RequestHeader(key, 0, 1, "app", 0), made)
