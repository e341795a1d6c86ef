"""Addresses of this machine that others can be sent to."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from typing import Final

from klamm.model.errors import UsageError

# Of the networks that are kept for documentation: nobody is there, and nothing is sent.
_OUTSIDE: Final = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


def own_address() -> str | None:
    """The address from which this machine reaches others; None where it reaches nobody."""
    for family, outside in _OUTSIDE:
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            # A datagram socket that is connected has only been given a way.
            probe.connect((outside, 9))
            found = str(probe.getsockname()[0])
            if _is_usable(found):
                return found
    return None


def own_name() -> str | None:
    """The name of this machine, where it leads to an address that is not only its own."""
    name = socket.getfqdn()
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return None
    return name if any(_is_usable(str(entry[4][0])) for entry in found) else None


def reachable(setting: str, *, by_name: bool) -> str:
    """The address to hand out by a broker that listens everywhere; `UsageError` without one.

    Kafka hands out the machine's name; an address is what more callers can use.
    """
    found = own_name() or own_address() if by_name else own_address() or own_name()
    if found is None:
        raise UsageError(
            "this machine knows no address of its own that others could be sent to. Name one: "
            f"{setting}"
        )
    return found


def _is_usable(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified or address.is_link_local)
