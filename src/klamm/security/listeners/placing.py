"""Places the listeners of brokers that are started together on one machine.

One set of texts is meant for all of them: a port p is broker i's port p + i, and port 0 any that is
free. Who names no listeners at all gets one, PLAINTEXT, at a host and a port.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from klamm.model.errors import Refused
from klamm.security.listeners.config import (
    ADVERTISED,
    LISTENERS,
    ListenerConfig,
    listener_config,
)
from klamm.security.listeners.endpoints import Listener, SecurityProtocol, split_list

# Hosts that mean every address of the machine: good to listen on, and nobody can go there.
EVERYWHERE: Final = frozenset({"", "0.0.0.0", "::"})
_PORT_MAX: Final = 65_535
_PLAINTEXT: Final = SecurityProtocol.PLAINTEXT


def named(texts: Mapping[str, str], host: str, port: int, advertised: str) -> dict[str, str]:
    """The same texts with listeners in them: where none were, one at this host and port.

    Clients are then sent to `advertised`, on the port that was bound.
    """
    if texts.get(LISTENERS, "").strip():
        return dict(texts)
    made = {**texts, LISTENERS: str(Listener(_PLAINTEXT.value, host, port, _PLAINTEXT))}
    if not texts.get(ADVERTISED, "").strip():
        made[ADVERTISED] = str(Listener(_PLAINTEXT.value, advertised, 0, _PLAINTEXT))
    return made


def shifted(texts: Mapping[str, str], by: int) -> dict[str, str]:
    """The texts of the broker with this number among those that are started together."""
    moved = {
        name: ",".join(_shifted(item, by) for item in split_list(texts[name]))
        for name in (LISTENERS, ADVERTISED)
        if texts.get(name, "").strip()
    }
    return {**texts, **moved}


def _shifted(item: str, by: int) -> str:
    before, colon, port = item.rpartition(":")
    # What is no address is left as it is: whoever reads it says so.
    if not colon or not port.isdecimal() or int(port) == 0:
        return item
    return f"{before}:{int(port) + by}"


def at_ports(texts: Mapping[str, str], ports: Mapping[str, int]) -> dict[str, str]:
    """The texts of a broker that comes back: it listens where it did, for its clients' sake."""
    if LISTENERS not in texts:
        return dict(texts)
    items = (
        f"{before}:{ports.get(before.partition('://')[0].strip().upper(), 0)}"
        if port == "0"
        else item
        for item in split_list(texts[LISTENERS])
        for before, _, port in (item.rpartition(":"),)
    )
    return {**texts, LISTENERS: ",".join(items)}


def crowding(texts: Mapping[str, str], brokers: int) -> str | None:
    """The reason why so many brokers cannot share these texts, where they make sense for one."""
    config = listener_config(texts)
    if isinstance(config, Refused):
        return None  # whoever checks the texts themselves says so
    taken: dict[int, str] = {}
    for at, listener in _places(config, brokers):
        port = listener.port + at
        if port > _PORT_MAX:
            return (
                f"port {listener.port} of {listener.name} leaves no room for {brokers} brokers "
                f"below {_PORT_MAX}"
            )
        whose = f"{listener.name} of broker {at}"
        other = taken.setdefault(port, whose)
        if other != whose and not _may_share(other, whose):
            return (
                f"port {port} would be that of {other} and of {whose}: a port p is broker i's port "
                f"p + i, so leave room for {brokers} between the ports, or use port 0"
            )
    return None


def _places(config: ListenerConfig, brokers: int) -> Iterator[tuple[int, Listener]]:
    for listener in config.listeners:
        if listener.port:
            yield from ((at, listener) for at in range(brokers))


def _may_share(one: str, other: str) -> bool:
    """Whether two listeners are of one broker: on one port they have been checked already."""
    return one.rpartition(" ")[2] == other.rpartition(" ")[2]
