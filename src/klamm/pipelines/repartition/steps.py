"""The topics of a re-partitioning: looking at them, making the copy, freezing, exchanging names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from klamm.client.aio import freezing
from klamm.client.aio.admin import Admin
from klamm.client.aio.visit import visit
from klamm.client.blocking.lookup import Lookup
from klamm.client.metadata import Topic
from klamm.client.settings import ClientSettings
from klamm.model.errors import KlammError, UsageError
from klamm.model.names import TOPIC_NAME_LENGTH_MAX, TopicPartition, is_internal
from klamm.model.settings.topic import FROZEN, IMPORT_EPOCH, IMPORTING, KEPT_UNTIL
from klamm.pipelines.archive.archiving import range_of
from klamm.pipelines.archive.layout import Window
from klamm.pipelines.repartition.plan import grid, monotonic
from klamm.pipelines.source.ranges import Range
from klamm.pipelines.source.selection import no_topic
from klamm.protocol.private import PrivateKey

PARTITIONS_MAX: Final = 10_000
_SWAPPED_MAX: Final = 1000  # what the controller exchanges in one write
# What would change, refuse or drop records while they are copied.
_ASIDE: Final[Mapping[str, str]] = {
    "message.timestamp.type": "CreateTime",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
    "max.message.bytes": str((1 << 31) - 1),
}


@dataclass(frozen=True, slots=True)
class TopicCluster:
    """The cluster, for what a job asks of it beside reading and writing."""

    lookup: Lookup
    settings: ClientSettings | None

    @property
    def is_klamm(self) -> bool:
        """Whether its controller exchanges names."""
        return self.lookup.serves(PrivateKey.SWAP_TOPICS)

    def topic(self, name: str) -> Topic:
        """A topic that is there."""
        found = self.lookup.topic(name)
        if found is None:
            raise no_topic(self.lookup, [name])
        return found

    def ranges(self, topic: Topic) -> dict[int, Range]:
        """Each partition with its leader, from its beginning to its stable end."""
        view = self.lookup.view([topic.name])
        starts = self.lookup.earliest(topic.partitions)
        ends = self.lookup.latest(topic.partitions, committed=True)
        return {
            tp.partition: range_of(
                view, topic.name, Window(tp.partition, starts[tp], max(ends[tp], starts[tp]))
            )
            for tp in topic.partitions
        }

    def borders(self, ranges: Mapping[int, Range], window: int) -> dict[int, list[int]]:
        """The first offsets of ascending times, for each source (`plan.stretches`)."""
        topic = next(iter(ranges.values())).topic
        tps = {p: TopicPartition(topic, p) for p in ranges}
        windows = max(-(-r.size // window) for r in ranges.values())
        times = self._times(tps) if windows > 1 and len(ranges) > 1 else (0, 0)
        found: dict[int, list[int]] = {p: [] for p in ranges}
        for when in grid(*times, windows):
            for tp, offset in self.lookup.offsets(dict.fromkeys(tps.values(), when)).items():
                found[tp.partition].append(offset)
        return {p: monotonic(offsets, ranges[p].stop) for p, offsets in found.items()}

    def _times(self, tps: Mapping[int, TopicPartition]) -> tuple[int, int]:
        """The oldest and the newest time, about: offsets at halves of all time tell."""
        low, high = 0, 1 << 42
        # The newest: the largest time at or after which there is a record.
        newest = self._last_with(tps, low, high)
        first = self.lookup.earliest(tps.values())
        oldest = self._last_with(tps, low, newest, lambda tp, o: o == first[tp]) if newest else 0
        return oldest, newest

    def _last_with(
        self,
        tps: Mapping[int, TopicPartition],
        low: int,
        high: int,
        holds: Callable[[TopicPartition, int], bool] = lambda _, offset: offset >= 0,
    ) -> int:
        """The last time, about, for which this holds of the offset of some partition."""
        while high - low > 1000:
            middle = (low + high) // 2
            found = self.lookup.offsets(dict.fromkeys(tps.values(), middle))
            if any(holds(tp, offset) for tp, offset in found.items()):
                low = middle
            else:
                high = middle
        return low

    def do(self, work: Callable[[Admin], Any]) -> Any:
        """Does something that takes klamm's own requests."""
        return visit(self.lookup.options.servers, self.settings, work)

    def freeze(self, *names: str) -> None:
        """Has every broker refuse records of topics, and waits for those under way."""
        self.do(lambda admin: freezing.freeze(admin, list(names)))

    def unfreeze(self, name: str) -> None:
        """Lets clients write again."""
        self.do(lambda admin: freezing.unfreeze(admin, [name]))

    def is_frozen(self, name: str) -> bool:
        return self.lookup.configs(name).get(FROZEN) == "true"

    def keep(self, name: str, until_ms: int | None) -> None:
        """Has a frozen topic deleted when a time has come; None: it stays."""
        self.lookup.alter(name, {KEPT_UNTIL: None if until_ms is None else str(until_ms)})

    def swap(self, topic: str, topic_id: str, other: str, other_id: str) -> None:
        """Has two topics exchange their names; done once however often it is asked for."""
        body = {"topic": topic, "topic_id": topic_id, "other": other, "other_id": other_id}
        self.do(lambda admin: admin.ask_controller(PrivateKey.SWAP_TOPICS, body))


def check(cluster: TopicCluster, topic: Topic, targets: int) -> None:
    """Refuses what cannot be re-partitioned, before anything is done."""
    count = len(topic.leaders) + targets
    if count > _SWAPPED_MAX and cluster.is_klamm:
        raise UsageError(
            f"{topic.name} would have {count} partitions before and after, and {_SWAPPED_MAX} can "
            "be exchanged at once"
        )
    if is_internal(topic.name):
        raise UsageError(f"{topic.name} is internal: its partitions are the cluster's own matter")
    if not 1 <= targets <= PARTITIONS_MAX:
        raise UsageError(f"a topic has 1 to {PARTITIONS_MAX:,} partitions, not {targets:,}")
    if targets == len(topic.leaders):
        raise UsageError(f"{topic.name} has {targets} partitions already")


def copy_name(topic: str, targets: int) -> str:
    """The name under which a copy is made, and the old one kept."""
    name = f"{topic}.repartition-{targets}"
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        raise UsageError(f"{topic} is too long a name: {name} would be the name of its copy")
    return name


def make_copy(
    cluster: TopicCluster, topic: Topic, name: str, targets: int, *, imports: bool
) -> str:
    """Makes the topic that is filled; its id. One that is there is somebody else's."""
    lookup = cluster.lookup
    if name in lookup.view([name]).topics:
        raise UsageError(
            f"there is a topic {name}: is it of an earlier run that was not ended, or kept for an "
            f"undo? `klamm topics delete {name}` makes room"
        )
    kept = lookup.configs(topic.name).items()
    configs = {k: v for k, v in kept if k not in (FROZEN, KEPT_UNTIL)}
    first = topic.leaders[min(topic.leaders)]
    replicas = len(first.replicas) if first is not None else -1
    own = {IMPORTING: "true", IMPORT_EPOCH: "0"} if imports else dict(_ASIDE)
    lookup.create(name, targets, replicas=replicas, configs={**configs, **own})
    return cluster.topic(name).id


def close_copy(cluster: TopicCluster, name: str) -> None:
    """Ends the filling of a copy that was imported: it takes no records."""
    cluster.lookup.alter(name, {FROZEN: "true", IMPORTING: None, IMPORT_EPOCH: None})
    cluster.freeze(name)


def commands(servers: str, topic: str, name: str, configs: Mapping[str, str]) -> list[str]:
    """The rest of the work on a Kafka whose controller exchanges no names."""
    alter = f"kafka-configs.sh --bootstrap-server {servers} --alter --entity-type topics"
    own = {setting: configs[setting] for setting in _ASIDE if setting in configs}
    none = ",".join(setting for setting in _ASIDE if setting not in configs)
    lines = [
        f"# stop the producers and consumers of {topic}, and run the same once more: it copies "
        f"the rest, and brings the groups' offsets for {name} up to date",
        "# give the copy its own settings for good, which were put aside while it was filled:",
    ]
    if none:
        lines.append(f"{alter} --entity-name {name} --delete-config {none}")
    if own:
        added = ",".join(f"{k}=[{v}]" if "," in v else f"{k}={v}" for k, v in own.items())
        lines.append(f"{alter} --entity-name {name} --add-config {added}")
    return [
        *lines,
        f"# start producers and consumers with the topic {name}; to go back, let them use {topic}",
        "# when nobody needs the old one any more:",
        f"kafka-topics.sh --bootstrap-server {servers} --delete --topic {topic}",
    ]


def refuse_open_transactions(lookup: Lookup, topic: Topic) -> None:
    """Refuses a topic of which something is not decided yet."""
    stable = lookup.latest(topic.partitions, committed=True)
    if stable != lookup.latest(topic.partitions):
        raise KlammError(
            f"{topic.name} has an open transaction: let it end, and run this again; it goes on"
        )
