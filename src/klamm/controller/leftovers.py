"""Copies that nobody needs any more and that some broker still has.

A finished move leaves one on each broker it took the partition from; a deletion that went on
without an absent broker leaves some there. They are tracked until the broker confirms that they are
gone. The list of a broker that is away is stored, so that the next controller knows it too.
"""

from __future__ import annotations

from collections.abc import Iterable

from klamm.controller.effects import Leftovers, RewriteLeftovers, StopOrder
from klamm.controller.turn import Flow, Turn, commit
from klamm.model.names import EPOCH_DURING_DELETE, BrokerId, TopicPartition


def track(turn: Turn, broker: BrokerId, found: Leftovers) -> Flow[None]:
    """These copies were ordered to go; the answer is awaited."""
    if broker in turn.context.brokers:
        turn.context.leftovers.setdefault(broker, {}).update(found)
    else:
        yield from write_down(turn, broker, found)


def write_down(turn: Turn, broker: BrokerId, found: Leftovers) -> Flow[None]:
    """These copies have to go when the broker is back."""
    turn.context.leftovers.setdefault(broker, {}).update(found)
    yield from _store(turn, broker)


def stop(turn: Turn, brokers: Iterable[BrokerId]) -> None:
    """Have brokers remove their leftovers.

    Not where the broker holds a later topic of the same name: the request names no topic id, so it
    might hit the wrong log. Such a broker says itself that the ids differ (`replace_stale`).
    """
    batch = turn.batch()
    for broker in brokers:
        hosted = turn.context.hosted.get(broker, {})
        for id in turn.context.leftovers.get(broker, ()):
            if id not in hosted:
                batch.stop_with(broker, StopOrder(id, EPOCH_DURING_DELETE, True))
    turn.send(batch)


def replace_stale(turn: Turn, broker: BrokerId, partitions: Iterable[TopicPartition]) -> None:
    """The broker found logs of earlier topics: have those removed, and ask once more."""
    old, new = turn.batch(), turn.batch()
    for id in partitions:
        partition = turn.context.partition(id)
        if partition is not None and partition.leadership is not None:
            old.stop_with(broker, StopOrder(id, EPOCH_DURING_DELETE, True))
            new.order((broker,), partition, is_new=True)
    turn.send(old)
    turn.send(new)


def confirm(turn: Turn, broker: BrokerId, partitions: Iterable[TopicPartition]) -> Flow[None]:
    """The broker has removed these copies."""
    left = turn.context.leftovers[broker]
    for id in partitions:
        left.pop(id, None)
    if not left:
        del turn.context.leftovers[broker]
    if broker in turn.context.leftovers_stored:
        yield from _store(turn, broker)


def _store(turn: Turn, broker: BrokerId) -> Flow[None]:
    left = dict(turn.context.leftovers.get(broker, {}))
    yield from commit([RewriteLeftovers(broker, left)])
    if left:
        turn.context.leftovers_stored.add(broker)
    else:
        turn.context.leftovers_stored.discard(broker)
