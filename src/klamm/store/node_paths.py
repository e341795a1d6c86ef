"""Which texts can be the path of a node, by ZooKeeper's rules."""

from __future__ import annotations

import re
from typing import Final

# ZooKeeper has no limit but the request's; a path is walked upwards at each of its changes.
LENGTH_MAX: Final = 8192

# Control characters, surrogates and private ones, specials; and all beyond the first plane, whose
# characters are pairs of surrogates to a Java server.
_REFUSED: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")
_EMPTY_OR_DOTS: Final = frozenset(("", ".", ".."))

# What a server has from the start, and keeps.
SERVER_NODES: Final = ("/zookeeper", "/zookeeper/quota", "/zookeeper/config")


def is_valid(path: str) -> bool:
    """Whether a node can have this path."""
    if not path.startswith("/") or len(path) > LENGTH_MAX or _REFUSED.search(path):
        return False
    return path == "/" or _EMPTY_OR_DOTS.isdisjoint(path[1:].split("/"))


def is_rooted(path: str) -> bool:
    """Whether there is a parent to look for at all: what comes first when a write is judged."""
    return "/" in path and "\0" not in path


def is_servers_own(path: str) -> bool:
    """Whether this is a node that nobody can delete."""
    return path == "/" or path in SERVER_NODES
