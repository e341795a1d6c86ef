"""The texts of `listeners`, `advertised.listeners` and `listener.security.protocol.map`.

A listener is known by its name alone. The map says which protocol a name speaks; it is replaced as
a whole where it is set, so a map of one's own names makes `PLAINTEXT://` a name without protocol.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from klamm.model.errors import Refused

PROTOCOL_MAP: Final = "listener.security.protocol.map"
_PORT_MAX: Final = 65_535
# The name is greedy: it ends at the last `://` behind which the rest is host and port.
_ENDPOINT: Final = re.compile(
    r"(?P<name>.*)://(?P<open>\[?)(?P<host>[0-9a-zA-Z\-%._:]*)(?P<close>\]?):(?P<port>-?[0-9]+)",
    re.DOTALL | re.ASCII,
)


class SecurityProtocol(StrEnum):
    """The protection of a listener."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def is_encrypted(self) -> bool:
        """Whether TLS comes before everything else."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """Whether a caller says who it is by SASL."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


DEFAULT_MAP: Final[Mapping[str, SecurityProtocol]] = {p.value: p for p in SecurityProtocol}


@dataclass(frozen=True, slots=True)
class Listener:
    """One door: an empty host is every address of the machine, and port 0 any that is free."""

    name: str
    host: str
    port: int
    protocol: SecurityProtocol

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def split_list(text: str) -> list[str]:
    """The items of a comma-separated text."""
    return [item for item in (part.strip() for part in text.split(",")) if item]


def parse_protocol_map(text: str) -> dict[str, SecurityProtocol] | Refused:
    """Reads `NAME:PROTOCOL,...`; of two items for one name the later wins."""
    protocols: dict[str, SecurityProtocol] = {}
    for item in split_list(text):
        name, colon, protocol = item.rpartition(":")
        if not colon:
            return Refused(
                f"Error parsing configuration property '{PROTOCOL_MAP}': {item} is not "
                "listener:protocol. Write NAME:PROTOCOL,NAME:PROTOCOL"
            )
        if not name.strip():
            return Refused(
                f"Error parsing configuration property '{PROTOCOL_MAP}': {item} names no listener"
            )
        known = SecurityProtocol.__members__.get(protocol.strip().upper())
        if known is None:
            return Refused(
                f"Invalid security protocol `{protocol.strip()}` defined in {PROTOCOL_MAP}"
            )
        protocols[name.strip().upper()] = known
    return protocols


def parse_listeners(
    text: str, protocols: Mapping[str, SecurityProtocol]
) -> tuple[Listener, ...] | Refused:
    """Reads `NAME://host:port,...`; no name may stand there twice."""
    found: list[Listener] = []
    for item in split_list(text.strip()):
        listener = _listener(item, protocols)
        if isinstance(listener, Refused):
            return Refused(f"Error creating broker listeners from '{text}': {listener.why}")
        found.append(listener)
    if len({listener.name for listener in found}) != len(found):
        return Refused(f"Each listener must have a different name, listeners: {text}")
    return tuple(found)


def _listener(item: str, protocols: Mapping[str, SecurityProtocol]) -> Listener | Refused:
    match = _ENDPOINT.fullmatch(item)
    if match is None or bool(match["open"]) != bool(match["close"]):
        return Refused(f"Unable to parse {item} to a broker endpoint")
    name = match["name"].strip().upper()
    if not name:
        return Refused("The provided listener name is null or empty string")
    if name not in protocols:
        return Refused(f"No security protocol defined for listener {name}")
    if len(match["port"]) > 6 or not 0 <= int(match["port"]) <= _PORT_MAX:
        return Refused(
            f"Unable to parse {item} to a broker endpoint: a port is between 0 and {_PORT_MAX}"
        )
    return Listener(name, match["host"], int(match["port"]), protocols[name])


def port_fault(listeners: Sequence[Listener], text: str) -> Refused | None:
    """The reason why these listeners cannot share ports: only one IPv4 and one IPv6 address may."""
    by_port: dict[int, list[Listener]] = {}
    for listener in listeners:
        if listener.port:
            by_port.setdefault(listener.port, []).append(listener)
    for port, sharing in by_port.items():
        if len(sharing) > 1 and (why := _sharing_fault(sharing, text, port)):
            return Refused(why)
    return None


def _sharing_fault(sharing: Iterable[Listener], text: str, port: int) -> str | None:
    families = [_family(listener.host) for listener in sharing]
    literal = [family for family in families if family is not None]
    if not literal or families.count(None) > 1:
        return f"Each listener must have a different port, listeners: {text}"
    if len(literal) == 2:
        if len(families) == 2 and set(literal) == {4, 6}:
            return None
        return (
            "If you have two listeners on the same port then one needs to be IPv4 and the other "
            f"IPv6, listeners: {text}, port: {port}"
        )
    return (
        "Each listener must have a different port unless exactly one listener has an IPv4 address "
        f"and the other IPv6 address, listeners: {text}, port: {port}"
    )


def _family(host: str) -> int | None:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).version
    except ValueError:
        return None
