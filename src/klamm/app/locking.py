"""A start that locks the cluster: from the wish for security to settings, users and files.

The order matters: secrets are read or drawn when the data directory is ours, brokers get the
settings that come of them, users are in the store before any broker is, and the clients' files are
written when it is known where brokers listen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from klamm.app.plan import Plan, check_settings
from klamm.broker.net.addresses import reachable
from klamm.model.settings import BrokerSettings
from klamm.secured.secured import Secured, refuse_open
from klamm.secured.wishes import ClusterAddresses
from klamm.security.listeners.placing import EVERYWHERE


async def lock(plan: Plan, data: Path) -> tuple[Plan, Secured | None]:
    """The plan with the settings that lock it; a locked cluster is not opened by mistake."""
    return await asyncio.to_thread(_lock, plan, data)


def _lock(plan: Plan, data: Path) -> tuple[Plan, Secured | None]:
    if plan.security is None:
        refuse_open(data)
        return plan, None
    told = plan.advertise or plan.host
    if told in EVERYWHERE:
        told = reachable("--advertise HOST", by_name=False)
    place = ClusterAddresses(host=plan.host, port=plan.port, brokers=plan.brokers, advertise=told)
    secured = Secured.open(data, plan.security, place)
    settings = secured.settings(plan.settings)
    if plan.zookeeper is None and not settings.get("zookeeper.connect"):
        # Where the store is the cluster's own and served, credentials are for brokers alone.
        settings.setdefault("zookeeper.set.acl", "true")
    check_settings(settings)
    return replace(plan, settings=settings), secured


def with_locks(settings: BrokerSettings, asked: Plan, locked: Plan) -> BrokerSettings:
    """The settings of the brokers with those that lock, which nobody asked for by name."""
    more = {name: text for name, text in locked.settings.items() if name not in asked.settings}
    return settings.with_static(more)


async def write_clients(secured: Secured | None, address: Callable[[str], str]) -> None:
    """Writes the clients' files of a locked cluster whose brokers listen."""
    if secured is not None:
        addresses = {kind: address(kind) for kind in secured.wishes.kinds}
        await asyncio.to_thread(secured.write_clients, addresses)
