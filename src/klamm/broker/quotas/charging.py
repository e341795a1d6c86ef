"""Charges a request to its client's quotas, and says how long the client has to wait."""

from __future__ import annotations

from typing import Protocol

from klamm.broker.net.context import RequestContext
from klamm.broker.quotas.quotas import QuotaClient, Quotas
from klamm.model.settings import BrokerSettings


class Charging(Protocol):
    """The parts that count what clients use."""

    @property
    def quotas(self) -> Quotas: ...

    @property
    def settings(self) -> BrokerSettings: ...


def charge(charging: Charging, context: RequestContext, key: str, amount: int) -> int:
    """Count bytes of a client; how many milliseconds it is to be left alone for."""
    if not charging.quotas.is_active or context.peer.is_broker:
        return 0
    client = QuotaClient.of(context.principal, context.client_id)
    return charging.quotas.use(key, client, amount, charging.settings)


def charge_time(charging: Charging, context: RequestContext) -> int:
    """Count the time a request took so far; how long its client is to be left alone for."""
    if not charging.quotas.is_timing or context.stopwatch is None or context.peer.is_broker:
        return 0
    client = QuotaClient.of(context.principal, context.client_id)
    return charging.quotas.use_time(client, context.stopwatch.busy_s, charging.settings)
