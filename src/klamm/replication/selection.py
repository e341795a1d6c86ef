"""From which replica a consumer should read (KIP-392).

A strategy is a function of what the leader knows: where the consumer sits and which replicas could
serve it. It names a replica; the leader answers itself when that is the leader or nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from klamm.model.names import BrokerId


@dataclass(frozen=True, slots=True)
class Readable:
    """A replica that has the offset the consumer asks for."""

    broker: BrokerId
    rack: str | None
    log_end: int
    caught_up_ms: int


Selector = Callable[[str, BrokerId, Sequence[Readable]], BrokerId]


def nearest(rack: str, leader: BrokerId, replicas: Sequence[Readable]) -> BrokerId:
    """A replica in the consumer's rack: the leader if it is there, else the most advanced one."""
    near = [replica for replica in replicas if replica.rack is not None and replica.rack == rack]
    if not near or any(replica.broker == leader for replica in near):
        return leader
    return max(near, key=lambda r: (r.log_end, r.caught_up_ms, -r.broker)).broker


def leader_only(rack: str, leader: BrokerId, replicas: Sequence[Readable]) -> BrokerId:
    """The leader, wherever the consumer is."""
    return leader


# By the names that `replica.selector.class` has in a configuration written for Kafka.
SELECTORS: Final[Mapping[str, Selector]] = {
    "": leader_only,
    "org.apache.kafka.common.replica.LeaderSelector": leader_only,
    "org.apache.kafka.common.replica.RackAwareReplicaSelector": nearest,
}
