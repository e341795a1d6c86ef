"""Chooses the address to hand out: always that of the listener on which somebody asks.

A caller on one network must not be sent to another, so a broker without an endpoint of the caller's
listener is left out, and a leader without one is a leader that cannot be found.
"""

from __future__ import annotations

from collections.abc import Iterable

from klamm.model.brokers import Endpoint, Registration
from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId

_LISTENER_NOT_FOUND_FROM = 6  # the version of Metadata that knows the code


def endpoints(brokers: Iterable[Registration], listener: str) -> dict[BrokerId, Endpoint]:
    """The brokers that a caller on this listener is told of."""
    found = ((broker.id, broker.endpoint(listener)) for broker in brokers)
    return {id: endpoint for id, endpoint in found if endpoint is not None}


def leader_code(leader: Registration | None, listener: str, metadata_version: int) -> ErrorCode:
    """The code in Metadata for a partition with this leader; None is one that is not alive."""
    if leader is None:
        return ErrorCode.LEADER_NOT_AVAILABLE
    if leader.endpoint(listener) is not None:
        return ErrorCode.NONE
    if metadata_version >= _LISTENER_NOT_FOUND_FROM:
        return ErrorCode.LISTENER_NOT_FOUND
    return ErrorCode.LEADER_NOT_AVAILABLE


def coordinator(broker: Registration | None, listener: str) -> Endpoint | ErrorCode:
    """The answer of FindCoordinator about the broker that coordinates."""
    endpoint = None if broker is None else broker.endpoint(listener)
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if endpoint is None else endpoint


def clashing(ours: Iterable[Endpoint], others: Iterable[Registration]) -> str | None:
    """The reason why a broker cannot register: another one has one of its addresses already."""
    mine = [(endpoint.host, endpoint.port) for endpoint in ours]
    for other in others:
        taken = {(endpoint.host, endpoint.port) for endpoint in other.endpoints}
        if taken & set(mine):
            text = ",".join(f"{host}:{port}" for host, port in mine)
            return (
                f"Configured end points {text} in advertised listeners are already registered by "
                f"broker {other.id}"
            )
    return None
