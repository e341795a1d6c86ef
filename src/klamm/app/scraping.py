"""Serves the brokers' metrics where the settings ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from klamm.broker.server import Broker
from klamm.installing import install_command
from klamm.model.errors import UsageError

if TYPE_CHECKING:
    from klamm.metrics.server import MetricsServer


async def serve_metrics(
    brokers: Mapping[int, Broker], host: str, port: int
) -> MetricsServer | None:
    """The address that Prometheus scrapes, or None where the port is -1."""
    if port < 0:
        return None
    try:
        # Not at the top: most clusters never need it.
        from klamm.metrics.server import MetricsServer
    except ImportError as missing:
        needs = f"metrics need prometheus-client: {install_command('metrics')}"
        raise UsageError(needs) from missing
    server = MetricsServer(brokers)
    await server.start(host, port)
    return server
