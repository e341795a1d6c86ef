"""Addresses of brokers: how they are written, and how they are read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from klamm.model.errors import UsageError

Address = tuple[str, int]

_PORT_MAX: Final = 65535
# An IPv6 address stands in brackets, for it has colons of its own.
_WRITTEN: Final = re.compile(
    r"(?:\[(?P<six>[^\[\]]+)\]|(?P<host>[^:\[\]\s]+)):(?P<port>[0-9]{1,5})"
)


def parse_bootstrap(text: str) -> tuple[Address, ...]:
    """`host:port,[::1]:port` as addresses."""
    found = tuple(_parse(part) for part in filter(None, (p.strip() for p in text.split(","))))
    if not found:
        raise UsageError("no bootstrap server is named: write host:port, or several with commas")
    return found


def _parse(part: str) -> Address:
    match = _WRITTEN.fullmatch(part)
    if match is None or int(match["port"]) > _PORT_MAX:
        hint = ""
        if part.count(":") > 1 and not part.startswith("["):
            hint = "; an IPv6 address stands in brackets, like [::1]:9092"
        raise UsageError(f"bootstrap server {part!r} is not host:port{hint}")
    return match["six"] or match["host"], int(match["port"])


def text(address: Address) -> str:
    """An address as it is written in a list of bootstrap servers."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def texts(addresses: Iterable[Address]) -> str:
    """A list of bootstrap servers."""
    return ",".join(map(text, addresses))
