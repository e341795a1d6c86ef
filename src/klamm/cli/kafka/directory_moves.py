"""Moves between the directories of a broker, as `kafka-reassign-partitions` words them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from klamm.cli.facts import live_brokers
from klamm.client.aio.admin import Admin
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition

TIMEOUT_MS: Final = 10_000
_PAUSE_S: Final = 0.1

# The directory that each replica is to be in, by broker and partition.
Directories = Mapping[int, Mapping[TopicPartition, str]]


class MovedReplica(NamedTuple):
    """A replica of a partition, in the order and the words of Kafka's tool."""

    partition: TopicPartition
    broker: int

    def __str__(self) -> str:
        return f"{self.partition}-{self.broker}"


class LogPlace(NamedTuple):
    """The directory a log is in, and the one it is being moved to; None where there is none."""

    current: str | None = None
    future: str | None = None


class MoveRefused(ValueError):
    """A broker does not move a log."""


class TooLate(ValueError):
    """Some moves could not be started in time."""


def targets_of(directories: Directories) -> dict[MovedReplica, str]:
    """The wanted directory of each replica."""
    return {
        MovedReplica(tp, broker): path
        for broker, places in directories.items()
        for tp, path in places.items()
    }


async def look(admin: Admin, replicas: Iterable[MovedReplica]) -> dict[MovedReplica, LogPlace]:
    """The places of these replicas now, those on brokers that are down included."""
    found = dict.fromkeys(replicas, LogPlace())
    live = await live_brokers(admin) & {replica.broker for replica in found}
    partitions = {replica.partition for replica in found}
    for broker, results in (await admin.log_dirs(sorted(live), partitions)).items():
        for directory in results:
            for topic in directory.topics:
                for log in topic.partitions:
                    replica = MovedReplica(TopicPartition(topic.name, log.partition_index), broker)
                    if replica in found:
                        place = found[replica]
                        found[replica] = (
                            place._replace(future=directory.log_dir)
                            if log.is_future_key
                            else place._replace(current=directory.log_dir)
                        )
    return found


def verdict(replica: MovedReplica, target: str, place: LogPlace) -> str:
    """One line about a move that was asked for."""
    tp, broker = replica
    if place.current is None:
        return (
            f"Partition {tp} is not found in any live log dir on broker {broker}. There is likely "
            "an offline log directory on the broker."
        )
    if place.future is None:
        if place.current == target:
            return f"Reassignment of replica {replica} completed successfully."
        return (
            f"Partition {tp} on broker {broker} is not being moved from log dir {place.current} to "
            f"{target}."
        )
    if place.future == target:
        return f"Reassignment of replica {replica} is still in progress."
    return (
        f"Partition {tp} on broker {broker} is being moved to log dir {place.future} instead of "
        f"{target}."
    )


def is_over(place: LogPlace) -> bool:
    """Whether a log is where it stays, for good or bad."""
    return place.current is not None and place.future is None


async def start(admin: Admin, targets: Mapping[MovedReplica, str], timeout_ms: int) -> list[str]:
    """Ask until every broker has its replica and moves it; a line for each.

    A replica that is on its way to a broker can be moved there once it has begun.
    """
    left, told = dict(targets), []
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            while True:
                for replica in await _accepted(admin, left):
                    path = left.pop(replica)
                    told.append(
                        f"Successfully started moving log directory to {path} for replica "
                        f"{replica.partition} with broker {replica.broker} "
                    )
                if not left:
                    return told
                await asyncio.sleep(_PAUSE_S)
    except TimeoutError:
        named = ",".join(map(str, sorted(left)))
        plural = "" if len(left) == 1 else "s"
        raise TooLate(
            f"Timed out before log directory move{plural} could be started for: {named}"
        ) from None


async def _accepted(admin: Admin, targets: Mapping[MovedReplica, str]) -> list[MovedReplica]:
    accepted = []
    for broker in sorted({replica.broker for replica in targets}):
        wanted = {r.partition: path for r, path in targets.items() if r.broker == broker}
        for tp, code in (await admin.alter_log_dirs(broker, wanted)).items():
            if code is ErrorCode.NONE:
                accepted.append(MovedReplica(tp, broker))
            elif code is not ErrorCode.REPLICA_NOT_AVAILABLE:
                raise MoveRefused(
                    f"Failed to alter dir for {MovedReplica(tp, broker)}: {code.name}"
                )
    return sorted(accepted)
