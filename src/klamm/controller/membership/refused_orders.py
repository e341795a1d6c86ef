"""Orders that a broker refused for no reason of this controller's making.

Kafka looks at one error of LeaderAndIsr only, that of a failed disk, and a replica refused for any
other reason does nothing until somebody restarts its broker. Here it is written down, told, and
ordered again from time to time. The leader epoch rises with each try, for a broker takes an order
of the epoch it knows for one it has followed.

A log of another topic id is not ordered about: the broker keeps it until it restarts, and the
replica is offline until then (`brokers.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from klamm.controller.context import Partition
from klamm.controller.states.machines import bump_epochs, remark
from klamm.controller.turn import Flow, Turn
from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId, Replica, TopicPartition

# Done; already done or overtaken by a later order; on a bad disk; without the log it is known for.
# The last two have ways of their own (`brokers.py`).
_EXPECTED: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.STALE_CONTROLLER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LOG_DIR_NOT_FOUND,
    }
)
# The order was for a replica of another time, or meets a log that must not be touched.
_FINAL: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
)


def sort_out(turn: Turn, broker: BrokerId, codes: Mapping[TopicPartition, ErrorCode]) -> None:
    """Tell of refusals, and remember which to try again."""
    context = turn.context
    for id, code in codes.items():
        if code is ErrorCode.NONE:
            context.refused.get(broker, {}).pop(id, None)
        elif code not in _EXPECTED:
            turn.warn(f"{Replica(id, broker)} was refused: {code.name}")
            if code not in _FINAL:
                context.refused.setdefault(broker, {}).setdefault(id, context.now_ms)


def refuse_all(turn: Turn, broker: BrokerId, partitions: Iterable[TopicPartition]) -> None:
    """The broker took nothing of a whole request."""
    hosted = turn.context.hosted.get(broker, {})
    known = turn.context.refused.setdefault(broker, {})
    for id in partitions:
        if id in hosted:
            known.setdefault(id, turn.context.now_ms)


def order_again(turn: Turn) -> Flow[None]:
    """Order once more what was refused, under a new epoch."""
    context = turn.context
    due: dict[TopicPartition, Partition] = {}
    for broker, ids in context.refused.items():
        for id in ids:
            partition = context.partition(id)
            if partition and context.is_online(broker, id) and not context.is_queued(id.topic):
                due[id] = partition
    batch = turn.batch()
    for partition in (yield from bump_epochs(turn, list(due.values()))):
        remark(turn, partition, "ordered again: a broker refused")
        batch.order(partition.assignment.replicas, partition, is_new=False)
    turn.send(batch)
