"""Limits the size of a topic: its node has to fit into the store.

The assignment of all partitions is one node, and a ZooKeeper server takes no request above 1 MiB. A
topic beyond that is refused before anybody counts to it: what automatic placement would take is a
formula, so two billion partitions are refused as fast as two are granted. The limit is the same
whatever the store is, so that a cluster can change its store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from klamm.model.assignment import Assignment
from klamm.model.errors import ErrorCode, Refused
from klamm.model.names import BrokerId

# What is left of 1 MiB for the node when the rest of the request has its share: paths, the fence,
# the settings of the topic.
NODE_BYTES_MAX: Final = 1024 * 1024 - 32 * 1024
_FRAME_BYTES: Final = 160  # of the node besides its partitions: version, id, empty lists
_ENTRY_BYTES: Final = len('"":[],')  # of one partition besides its number and its replicas


def partitions_fault(
    topic: str,
    brokers: Iterable[BrokerId],
    *,
    count: int,
    factor: int,
    present: Mapping[int, Assignment] | None = None,
) -> Refused | None:
    """The reason why a topic cannot have `count` partitions, whoever of these brokers gets them."""
    known = present or {}
    widths = [len(str(broker)) for broker in brokers]
    added = count - len(known)
    if added <= 0 or factor <= 0 or not widths:
        return None  # wrong for other reasons, which others tell
    # Replicas go round the brokers in turn, so each id comes equally often.
    replicas = factor * (sum(widths) / len(widths) + 1) - 1
    numbers = digits_below(count) - digits_below(len(known))
    size = node_bytes(known) + numbers + int(added * (_ENTRY_BYTES + replicas))
    return _fault(topic, count, size)


def placement_fault(topic: str, replicas: Mapping[int, tuple[BrokerId, ...]]) -> Refused | None:
    """The same for an assignment that somebody chose."""
    size = node_bytes({number: Assignment(brokers) for number, brokers in replicas.items()})
    return _fault(topic, len(replicas), size)


def _fault(topic: str, count: int, size: int) -> Refused | None:
    if size <= NODE_BYTES_MAX:
        return None
    return Refused(
        f"topic {topic} cannot have {count} partitions: its node in the store would take {size} "
        f"bytes, and the limit is {NODE_BYTES_MAX}",
        ErrorCode.INVALID_PARTITIONS,
    )


def node_bytes(partitions: Mapping[int, Assignment]) -> int:
    """The size of a topic's node with these partitions, within a few bytes."""
    return _FRAME_BYTES + sum(
        _entry_bytes(number, assignment) for number, assignment in partitions.items()
    )


def _entry_bytes(number: int, assignment: Assignment) -> int:
    lists = [assignment.replicas]
    if assignment.is_reassigning:
        # While it moves, a partition is in the node up to four times: its replicas, those that are
        # added, those that are removed, and the order they had.
        lists += [assignment.adding, assignment.removing, assignment.origin]
    name = len(str(number))
    return sum(name + _ENTRY_BYTES + len(",".join(map(str, ids))) for ids in lists if ids)


def digits_below(count: int) -> int:
    """The number of digits that the numbers 0 to count - 1 have together."""
    total, low, width = 0, 0, 1
    while low < count:
        high = min(count, 10**width)
        total += (high - low) * width
        low, width = high, width + 1
    return total
