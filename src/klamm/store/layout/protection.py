"""Whom ZooKeeper lets read and write a node where `zookeeper.set.acl` is true.

Brokers share one identity, so what its creator may do every broker may. Credentials and encoded
passwords are for brokers alone; everything else can be read by everybody, lists of access among it.
The test of a path is its beginning as text, as in Kafka.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from klamm.store.access import ALL, OPEN, READ, Acl, Grant
from klamm.store.layout.paths import CLUSTER_SECRET


class Protection(StrEnum):
    """The permissions on a node."""

    OPEN = "everybody may do everything"
    READABLE = "everybody may read, brokers may do everything"
    SECRET = "brokers may do everything, nobody else anything"


# The last is klamm's own: what brokers prove to each other that they know.
SECRETS: Final = (
    "/config/users",
    "/config/brokers",
    "/delegation_token/tokens",
    CLUSTER_SECRET,
)


def protection(path: str, *, set_acl: bool) -> Protection:
    """The protection of a new node."""
    if not set_acl or path == "/consumers":
        return Protection.OPEN
    if path.startswith(SECRETS):
        return Protection.SECRET
    return Protection.READABLE


def grants(path: str, digest_id: str) -> Acl:
    """The list of a new node that belongs to whoever shows this digest."""
    creator = Grant(ALL, "digest", digest_id)
    match protection(path, set_acl=True):
        case Protection.OPEN:
            return OPEN
        case Protection.READABLE:
            return (creator, Grant(READ, "world", "anyone"))
        case Protection.SECRET:
            return (creator,)
