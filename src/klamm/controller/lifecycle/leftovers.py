"""Copies that nobody needs any more and that some broker still has.

A finished move leaves one on each broker it took the partition from; a deletion that went on
without an absent broker leaves some there. They are written to the store before the last trace of
them is lost, and tracked until the broker confirms that they are gone, so that neither a broker
that is away nor the end of a controller's term makes anybody forget them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from klamm.controller.effects import Leftovers, RewriteLeftovers, StopOrder
from klamm.controller.turn import Flow, Turn, commit
from klamm.model.names import EPOCH_DURING_DELETE, BrokerId, TopicPartition


def write_down(turn: Turn, found: Mapping[BrokerId, Leftovers]) -> Flow[None]:
    """These copies have to go, now or when their broker is back."""
    for broker, copies in found.items():
        turn.context.leftovers.setdefault(broker, {}).update(copies)
    yield from _store(turn, found)


def save(turn: Turn) -> Flow[None]:
    """Store the lists from which copies were taken because they are assigned again."""
    unsaved = list(turn.context.leftovers_unsaved)
    turn.context.leftovers_unsaved.clear()
    yield from _store(turn, unsaved)


def stop(turn: Turn, brokers: Iterable[BrokerId]) -> None:
    """Have brokers remove their leftovers.

    Not where the broker holds a later topic of the same name: the request names no topic id, so it
    might hit the wrong log. Such a broker says itself that the ids differ (`replace_stale`). A copy
    of the very topic was given up while the topic waits for others: it goes now.
    """
    batch = turn.batch()
    for broker in brokers:
        hosted = turn.context.hosted.get(broker, {})
        for id, topic_id in turn.context.leftovers.get(broker, {}).items():
            if id not in hosted or turn.context.topics[id.topic].id == topic_id:
                batch.stop_with(broker, StopOrder(id, topic_id, EPOCH_DURING_DELETE, True))
    turn.send(batch)


def replace_stale(turn: Turn, broker: BrokerId, partitions: Iterable[TopicPartition]) -> None:
    """The broker found logs of earlier topics: have those removed, and ask once more."""
    old, new = turn.batch(), turn.batch()
    left = turn.context.leftovers.get(broker, {})
    for id in partitions:
        partition = turn.context.partition(id)
        if partition is None or turn.context.is_queued(id.topic):
            continue  # what the deletion of this topic removes would be made again
        if partition.leadership is not None:
            old.stop_with(broker, StopOrder(id, left[id], EPOCH_DURING_DELETE, True))
            new.order((broker,), partition, is_new=True)
    turn.send(old)
    turn.send(new)


def confirm(turn: Turn, broker: BrokerId, partitions: Iterable[TopicPartition]) -> Flow[None]:
    """The broker has removed these copies."""
    left = turn.context.leftovers[broker]
    for id in partitions:
        left.pop(id, None)
    yield from _store(turn, [broker])


def _store(turn: Turn, brokers: Iterable[BrokerId]) -> Flow[None]:
    left = turn.context.leftovers
    yield from commit([RewriteLeftovers(b, dict(left[b])) for b in brokers])
    for broker in brokers:
        if not left[broker]:
            del left[broker]
