"""Broker registrations, `/brokers/ids/N`, of all versions that were ever written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from klamm.model.brokers import PLAINTEXT, Endpoint, Registration
from klamm.model.names import BrokerId
from klamm.store.layout.jsontext import dump, load, or_none

_PROOF: Final = 1  # the way in which brokers prove what they are
# LISTENER://host:port, where an IPv6 host stands in brackets.
_ENDPOINT: Final = re.compile(r"(?P<listener>.*)://\[?(?P<host>[^\]]*)\]?:(?P<port>-?[0-9]+)\Z")


def encode_broker(broker: Registration, *, timestamp_ms: int, jmx_port: int = -1) -> bytes:
    """Version 5. The epoch is the node's creation transaction, not part of the data."""
    plain = next((e for e in broker.endpoints if e.security_protocol == PLAINTEXT), None)
    fields: dict[str, object] = {
        "version": 5,
        # For clients from before there were listeners: they know host and port only.
        "host": plain.host if plain else None,
        "port": plain.port if plain else -1,
        "endpoints": [str(endpoint) for endpoint in broker.endpoints],
        "jmx_port": jmx_port,
        "timestamp": str(timestamp_ms),
    }
    if broker.rack is not None:
        fields["rack"] = broker.rack
    fields["listener_security_protocol_map"] = {
        endpoint.listener: endpoint.security_protocol for endpoint in broker.endpoints
    }
    fields["features"] = {
        name: {"min_version": low, "max_version": high}
        for name, (low, high) in sorted(broker.features.items())
    }
    if broker.can_prove:
        # Ours: other readers of registrations skip what they do not know.
        fields["klamm"] = {"proof": _PROOF}
    return dump(fields)


@or_none
def decode_broker(broker: BrokerId, data: bytes | None, epoch: int) -> Registration:
    """Versions 1 to 5; `epoch` is the node's czxid."""
    fields = load(data)
    if "endpoints" in fields:
        protocols = fields.get("listener_security_protocol_map") or {}
        endpoints = tuple(_endpoint(text, protocols) for text in fields["endpoints"])
    else:
        endpoints = (Endpoint(str(fields["host"]), int(fields["port"])),)
    features = fields.get("features") or {}
    own = fields.get("klamm") or {}
    return Registration(
        id=broker,
        epoch=epoch,
        endpoints=endpoints,
        rack=fields.get("rack"),
        features={
            name: (int(levels["min_version"]), int(levels["max_version"]))
            for name, levels in features.items()
        },
        can_prove=own.get("proof") == _PROOF,
    )


def _endpoint(text: str, protocols: Mapping[str, Any]) -> Endpoint:
    found = _ENDPOINT.match(text)
    if found is None:
        raise ValueError("not an endpoint")
    listener = found["listener"]
    # Before version 4 a listener was named after its protocol, and there was no map.
    protocol = str(protocols[listener]) if protocols else listener
    return Endpoint(found["host"], int(found["port"]), listener, protocol)
