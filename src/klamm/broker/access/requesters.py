"""The callers of requests about tokens."""

from __future__ import annotations

from dataclasses import replace

from klamm.broker.access.access import principal_of
from klamm.broker.net.context import RequestContext
from klamm.security.credentials.tokens import Requester
from klamm.security.listeners.config import ListenerConfig


def requester_of(context: RequestContext, listeners: ListenerConfig) -> Requester:
    """The caller, and the kind of listener it came through."""
    principal = replace(principal_of(context), by_token=context.by_token)
    return Requester(principal, listeners.listener(context.listener).protocol)
