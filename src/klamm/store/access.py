"""ZooKeeper's ACLs decide who may do what with a node.

A list of grants belongs to each node and is not inherited. Callers inside the process are the
cluster itself and are not asked; those who come over the wire are a `Caller`: the address they come
from, the digests they have shown, and what the door lets them do at all.

Pure: no clock, no disk, no loop.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from klamm.store.port import Check, Create, Delete, Outcome, SetData

READ, WRITE, CREATE, DELETE, ADMIN = 1, 2, 4, 8, 16
ALL: Final = READ | WRITE | CREATE | DELETE | ADMIN
# Judged one by one at every access, so a list has an end.
GRANTS_MAX: Final = 128

_IP: Final = re.compile(r"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(/\d{1,2})?", re.ASCII)


class Grant(NamedTuple):
    """The rights of somebody."""

    perms: int
    scheme: str
    id: str


Acl = tuple[Grant, ...]
OPEN: Final[Acl] = (Grant(ALL, "world", "anyone"),)


@dataclass(frozen=True, slots=True)
class ServedCreate(Create):
    """A create that came over the wire: with a list of grants, and maybe a fault in its flags."""

    acl: Sequence[Grant] = OPEN
    is_container: bool = False
    fault: Outcome | None = None


@dataclass(frozen=True, slots=True)
class SetAcl:
    """Replace a node's grants where its ACL version is the one named."""

    path: str
    acl: Sequence[Grant]
    version: int = -1


ServedOp = Create | SetData | Delete | Check | SetAcl


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Somebody at the other end of a connection."""

    address: str = ""
    digests: tuple[str, ...] = ()  # in the order they were shown
    may_write: bool = True  # what the door says; the node's own grants come on top
    hidden: tuple[str, ...] = ()  # names of subtrees whose data the door keeps from this caller

    def may(self, wanted: int, path: str, acl: Acl) -> bool:
        """Whether one of these permissions is given, by the door and by the node."""
        if wanted & ~READ and not self.may_write:
            return False
        if self.hidden and self.is_kept_from(path):
            return False
        if acl is OPEN:
            return True
        return any(grant.perms & wanted and self._is(grant) for grant in acl)

    def is_kept_from(self, path: str) -> bool:
        """Whether the door keeps this caller from a node, wherever the tree's root is."""
        return any(f"{name}/" in f"{path}/" for name in self.hidden)

    def _is(self, grant: Grant) -> bool:
        match grant.scheme:
            case "world":
                return True
            case "digest":
                return grant.id in self.digests
            case "ip":
                return _is_within(self.address, grant.id)
            case _:
                return False


def resolved(given: Sequence[Grant], caller: Caller) -> Acl | None:
    """The list as it is kept, or None where it cannot be one.

    `auth` stands for everybody whom the caller has shown to be.
    """
    found: dict[Grant, None] = {}
    for grant in given[: GRANTS_MAX + 1]:
        if grant.scheme == "auth":
            if not caller.digests:
                return None
            found |= {Grant(grant.perms, "digest", id): None for id in caller.digests}
        elif _is_valid(grant):
            found[grant] = None
        else:
            return None
    acl = tuple(found)
    if not 0 < len(acl) <= GRANTS_MAX:
        return None
    return OPEN if acl == OPEN else acl


def redacted(acl: Acl) -> Acl:
    """The list for those who may not change it: nobody learns a digest."""
    return tuple(
        grant._replace(id=f"{grant.id.partition(':')[0]}:x") if grant.scheme == "digest" else grant
        for grant in acl
    )


def _is_valid(grant: Grant) -> bool:
    match grant.scheme:
        case "world":
            return grant.id == "anyone"
        case "digest":
            return grant.id.count(":") == 1
        case "ip":
            return _network(grant.id) is not None
        case _:
            return False


def _is_within(address: str, place: str) -> bool:
    network = _network(place)
    try:
        return network is not None and ipaddress.IPv4Address(address) in network
    except ValueError:
        return False


def _network(place: str) -> ipaddress.IPv4Network | None:
    if not _IP.fullmatch(place):
        return None
    try:
        return ipaddress.IPv4Network(place, strict=False)
    except ValueError:
        return None
