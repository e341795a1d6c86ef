"""Names the actual leader to clients that asked the wrong broker (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable

from klamm.broker.replicas.hosting import Hosting
from klamm.model.names import BrokerId, TopicPartition
from klamm.protocol.wire import CurrentLeader, NodeEndpoint


def current_leader(
    hosting: Hosting, topic_partition: TopicPartition, *, even_here: bool = False
) -> CurrentLeader | None:
    """The leader this broker knows of, if it is another one.

    A client with an old epoch is told the new one even where the leader is this broker.
    """
    hosted = hosting.replicas.partition(topic_partition)
    known = hosting.metadata.snapshot.partition(topic_partition)
    best = max(
        (
            (candidate.leader_epoch, candidate.leader)
            for candidate in (hosted, known)
            if candidate is not None
        ),
        default=(-1, -1),
    )
    if best[1] < 0 or (best[1] == hosting.id and not even_here):
        return None
    return CurrentLeader(best[1], best[0])


def endpoints_of(
    hosting: Hosting, listener: str, leaders: Iterable[CurrentLeader]
) -> list[NodeEndpoint]:
    """The addresses of these leaders."""
    snapshot = hosting.metadata.snapshot
    found = []
    for leader in {leader.leader_id for leader in leaders}:
        endpoint = snapshot.endpoint(BrokerId(leader), listener)
        if endpoint is not None:
            rack = snapshot.brokers[BrokerId(leader)].rack
            found.append(NodeEndpoint(leader, endpoint.host, endpoint.port, rack))
    return found
