"""Addresses in the spelling of Java's, which is what the hosts in ACLs are compared with.

An IPv6 address has all its eight groups and no leading zeros (`0:0:0:0:0:0:0:1`); an IPv4 address
mapped into IPv6 shows as IPv4. An entry for `::1` therefore applies to nobody, as in Kafka.
"""

from __future__ import annotations

import ipaddress


def host_text(address: str) -> str:
    """A peer's address as ACLs spell it; what is no address stays as it is."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in parsed.exploded.split(":"))
