"""Records that were taken away from a broker's disk while it was down.

What a log held at a clean stop it must hold at the next start (`log/recovery/loading.py` compares).
Where it does not, the broker is no longer in sync, whatever the store says: it would be elected as
if it had everything, and the others would throw away what it has not. So before it registers, and
thus before anybody can elect it, it leaves the in-sync sets that have other members. It then
follows one of them. Where it was the only member there is nobody to leave it to:
`broker/replicas/replicas.py` decides.

A controller at work has taken a broker that is down out of those sets long ago; this is for brokers
that went down together. The writes name the version they replace, so a controller that decides at
the same moment reads again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from klamm.model.leadership import Leadership
from klamm.model.names import NO_LEADER, BrokerId, TopicPartition
from klamm.store import layout
from klamm.store.port import Node, Session, SetData

log = logging.getLogger(__name__)


async def leave_in_sync_sets(
    session: Session, broker: BrokerId, partitions: Sequence[TopicPartition]
) -> None:
    """Leave what others can make up for."""
    if not partitions:
        return
    nodes = await session.get_many([layout.state_path(partition) for partition in partitions])
    left: list[tuple[TopicPartition, SetData]] = []
    for partition, node in zip(partitions, nodes, strict=True):
        after = None if node is None else _without(broker, node)
        if node is not None and after is not None:
            write = SetData(
                layout.state_path(partition), layout.encode_state(after), node.stat.version
            )
            left.append((partition, write))
    results = await session.multis([write] for _, write in left)
    for (partition, _), (result, *_) in zip(left, results, strict=True):
        if result.ok:
            log.warning(
                "this broker leaves the in-sync replicas, for its log has lost records",
                extra={"broker": broker, "partition": str(partition)},
            )


def _without(broker: BrokerId, node: Node) -> Leadership | None:
    """The leadership without a broker; None where it stays as it is."""
    now = layout.decode_state(node.data, node.stat.version)
    if now is None:
        return None  # a node that cannot be read is the controller's to judge
    others = tuple(member for member in now.isr if member != broker)
    if broker not in now.isr or not others:
        return None
    leader = NO_LEADER if now.leader == broker else now.leader
    return now.succeeded_by(leader, others, now.controller_epoch)
