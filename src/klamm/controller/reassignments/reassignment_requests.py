"""The legacy request to move partitions (`/admin/reassign_partitions`), kept in step."""

from __future__ import annotations

from collections.abc import Iterable

from klamm.controller.effects import RewriteReassignmentRequests
from klamm.controller.turn import Flow, Turn, commit
from klamm.model.names import TopicPartition


def clear(turn: Turn) -> Flow[None]:
    """Take the whole request away."""
    turn.context.reassignment_requests = {}
    yield from commit([RewriteReassignmentRequests({})])


def drop(turn: Turn, partitions: Iterable[TopicPartition]) -> Flow[None]:
    """Take partitions out of the request, for they are done, refused or asked for anew."""
    requested = turn.context.reassignment_requests
    gone = [id for id in partitions if id in requested]
    if not gone:
        return
    for id in gone:
        del requested[id]
    yield from commit([RewriteReassignmentRequests(dict(requested))])
