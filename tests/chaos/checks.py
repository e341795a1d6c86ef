"""What must hold when it is over."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from chaos.faults import Happened
from chaos.load import Transactions
from chaos.world import LAG_MS, SESSION_MS, World
from history import Acked
from klamm.client.aio.admin import Admin
from klamm.controller.states.judging import judge
from klamm.protocol.private import PrivateKey

# What a restart, an election and a busy machine take beside the time-outs.
SLACK_S = 12.0
_ALLOWED_S = (SESSION_MS + LAG_MS) / 1000 + SLACK_S
_WORTH_A_LOOK_S = 0.5
# These make things slow, and stop nobody.
_ONLY_SLOW = frozenset({"delay", "jump", "slow disk", "slow store"})
_PAGE = 10_000


def transactions(
    world: World, topic: str, partitions: int, by: Iterable[Transactions]
) -> list[str]:
    """What committed readers see: all that was committed, once, and nothing that was aborted."""
    seen = Counter(committed_values(world.bootstrap, topic, partitions))
    faults = [f"{value!r} is there {count} times" for value, count in seen.items() if count > 1]
    for each in by:
        faults += [
            f"{value!r} was committed and is lost" for value in each.committed if not seen[value]
        ]
        faults += [f"{value!r} was aborted and is read" for value in each.aborted if seen[value]]
        for values in each.unknown:
            there = [value for value in values if seen[value]]
            if there and len(there) < len(values):
                faults.append(f"of one transaction only {there!r} can be read")
    return faults


def committed_values(servers: str, topic: str, partitions: int) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "a-witness",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    values: list[bytes] = []
    try:
        consumer.assign([TopicPartition(topic, at, 0) for at in range(partitions)])
        ended = 0
        while ended < partitions:
            message = consumer.poll(60)
            assert message is not None, f"no more after {len(values)} records of {topic}"
            if message.error() is not None:
                assert message.error().name() == "_PARTITION_EOF", message.error()
                ended += 1
            else:
                values.append(message.value() or b"")
    finally:
        consumer.close()
    return values


def ledger(world: World) -> list[str]:
    """Every line is legal, and every chain joins."""
    return list(judge(world.klamm_admin(_entries)).faults())


async def _entries(admin: Admin) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for broker in await admin.ask_brokers(PrivateKey.STORY, {"limit": 1}):
        after = [-1, -1]
        while True:
            body = {"after": after, "limit": _PAGE}
            entries = (await admin.ask_brokers(PrivateKey.STORY, body, [broker]))[broker]["entries"]
            found += entries
            if len(entries) < _PAGE:
                break
            after = [entries[-1]["controller_epoch"], entries[-1]["sequence"]]
    return found


def at_rest(world: World) -> list[str]:
    """All in-sync sets are full, and the store, every broker and every disk say the same."""
    faults: list[str] = []
    topics = world.children("/brokers/topics")
    for topic in topics:
        assigned = world.assignment(topic)
        if not world.is_settled(topic, len(assigned)):
            states = {at: world.state(topic, at) for at in assigned}
            faults.append(f"{topic} is not at rest: {assigned}, {states}")
    for broker in world.brokers.values():
        wanted = {
            f"{topic}-{at}"
            for topic in topics
            for at, replicas in world.assignment(topic).items()
            if broker.id in replicas
        }
        there = {
            found.name
            for found in broker.directory.iterdir()
            if found.is_dir() and not found.name.endswith(("-delete", "-stray"))
        }
        if missing := wanted - there:
            faults.append(f"broker {broker.id} has nothing of {sorted(missing)}")
        if more := {name for name in there - wanted if "-" in name}:
            faults.append(f"broker {broker.id} still has {sorted(more)}")
    return faults


@dataclass(frozen=True, slots=True)
class Gap:
    """A time without an acknowledgement, and the faults that may explain it."""

    whose: str
    began: float
    ended: float
    allowed_s: float
    meanwhile: tuple[Happened, ...]

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    def __str__(self) -> str:
        named = ", ".join(
            f"{h.what}: {h.whom} from {h.began - self.began:+.1f} to {h.ended - self.began:+.1f} s"
            for h in self.meanwhile
        )
        return f"{self.whose} {self.seconds:.1f} s ({named or 'nothing went wrong'})"


def _stopped_s(fault: Happened, began: float, ended: float) -> float:
    """The part of a gap during which a fault may have kept everybody from being served."""
    if fault.what in _ONLY_SLOW:
        return 0.0
    return max(0.0, min(fault.ended, ended) - max(fault.began, began))


def gaps(whose: str, times: Iterable[float], happened: Sequence[Happened]) -> list[Gap]:
    """All times without an acknowledgement that are worth a look."""
    found = []
    for before, after in pairwise(sorted(times)):
        if after - before < _WORTH_A_LOOK_S:
            continue
        meanwhile = [h for h in happened if h.began < after and h.ended + _ALLOWED_S > before]
        allowed_s = sum(_stopped_s(h, before, after) for h in meanwhile) + _ALLOWED_S
        found.append(Gap(whose, before, after, allowed_s, tuple(meanwhile)))
    return found


def all_gaps(
    acked: Iterable[tuple[float, Acked]], happened: Sequence[Happened]
) -> tuple[list[Gap], list[Gap]]:
    """The times without any acknowledgement, and those of each partition; the longest first."""
    by_partition: defaultdict[str, list[float]] = defaultdict(list)
    for at, record in acked:
        topic, number = record.partition
        by_partition[f"{topic}-{number}"].append(at)
    times = [at for each in by_partition.values() for at in each]
    parts = [gap for whose, at in by_partition.items() for gap in gaps(whose, at, happened)]
    return _longest_first(gaps("everywhere", times, happened)), _longest_first(parts)


def _longest_first(found: Iterable[Gap]) -> list[Gap]:
    return sorted(found, key=lambda gap: gap.seconds, reverse=True)


def unexplained(found: Iterable[Gap]) -> list[str]:
    """Those that are longer than the time-outs allow."""
    return [
        f"no answer for {gap}: it explains {gap.allowed_s:.1f} s"
        for gap in found
        if gap.seconds > gap.allowed_s
    ]
