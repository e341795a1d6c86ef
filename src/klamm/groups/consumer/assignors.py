"""Assigns partitions to members: the assignors that members may choose by name.

An assignor sees the wishes, the topics and the assignment before, and says what each member is to
have in the end. It does not ask who holds what at the moment; getting there is another's work.

- `uniform` gives everybody the same number of partitions, as far as the wishes allow, and moves as
  few of them as it can.
- `range` gives each member neighbouring partitions, the same numbers in every topic of the same
  size: what was written under one key in two topics meets at one member.
"""

from __future__ import annotations

import heapq
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from klamm.groups.consumer.state import NOTHING, Partitions, TopicIdPartition, TopicShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """All that an assignment may look at."""

    subscriptions: Mapping[str, frozenset[str]]  # member -> the names of topics that exist
    ranks: Mapping[str, str]  # member -> what it is sorted by: its instance id, or else its own
    topics: Mapping[str, TopicShape]
    before: Mapping[str, Partitions]  # the target until now


Assignor = Callable[[Wishes], dict[str, Partitions]]


def assign_range(wishes: Wishes) -> dict[str, Partitions]:
    """Neighbouring partitions of each topic; where they do not fit, the first get one more."""
    given: defaultdict[str, set[TopicIdPartition]] = defaultdict(set)
    for name, topic in wishes.topics.items():
        readers = sorted(
            (m for m, names in wishes.subscriptions.items() if name in names),
            key=lambda member: (wishes.ranks[member], member),
        )
        start = 0
        for place, member in enumerate(readers):
            size = topic.partitions // len(readers) + (place < topic.partitions % len(readers))
            given[member] |= {TopicIdPartition(topic.id, n) for n in range(start, start + size)}
            start += size
    return {member: frozenset(given[member]) for member in wishes.subscriptions}


def assign_uniform(wishes: Wishes) -> dict[str, Partitions]:
    """The same number for everybody, and everybody keeps what it has as far as that allows."""
    shares = _Shares(wishes)
    taken = NOTHING.union(*shares.given.values())
    left = (
        TopicIdPartition(topic.id, number)
        for topic in wishes.topics.values()
        if topic.id in shares.pools
        for number in range(topic.partitions)
    )
    # The partitions with the fewest possible readers go first: the others can still make up for it.
    for partition in sorted((p for p in left if p not in taken), key=shares.rarity):
        shares.give(partition, shares.least(partition))
    shares.level()
    return {member: frozenset(partitions) for member, partitions in shares.given.items()}


class _Shares:
    """The shares of all members while they are dealt out.

    Topics with the same readers share a *pool*, a heap of these readers by what they have. Its
    entries are not corrected when a share changes but followed by a newer one; an entry that tells
    a wrong number is dropped when it comes up.
    """

    def __init__(self, wishes: Wishes) -> None:
        self.given: dict[str, set[TopicIdPartition]] = {m: set() for m in wishes.subscriptions}
        self.pools: dict[uuid.UUID, list[tuple[int, str]]] = {}  # topic id -> its readers' heap
        self._sizes: dict[uuid.UUID, int] = {}
        self._pools_of: dict[str, list[list[tuple[int, str]]]] = {m: [] for m in self.given}
        self._keep(wishes)
        self._fill_pools(wishes)

    def _keep(self, wishes: Wishes) -> None:
        sizes = {topic.id: topic.partitions for topic in wishes.topics.values()}
        names = {topic.id: name for name, topic in wishes.topics.items()}
        taken: set[TopicIdPartition] = set()
        for member, subscribed in wishes.subscriptions.items():
            self.given[member] = {
                p
                for p in wishes.before.get(member, NOTHING) - taken
                if names.get(p.topic_id) in subscribed and p.partition < sizes[p.topic_id]
            }
            taken |= self.given[member]

    def _fill_pools(self, wishes: Wishes) -> None:
        by_readers: dict[frozenset[str], list[tuple[int, str]]] = {}
        for name, topic in wishes.topics.items():
            readers = frozenset(m for m, names in wishes.subscriptions.items() if name in names)
            if not readers:
                continue
            if readers not in by_readers:
                pool = by_readers[readers] = [(len(self.given[m]), m) for m in readers]
                heapq.heapify(pool)
                for member in readers:
                    self._pools_of[member].append(pool)
            self.pools[topic.id] = by_readers[readers]
            self._sizes[topic.id] = len(readers)

    def rarity(self, partition: TopicIdPartition) -> tuple[int, int, int]:
        """The order in which partitions are assigned: the rarest first."""
        return self._sizes[partition.topic_id], partition.topic_id.int, partition.partition

    def least(self, partition: TopicIdPartition) -> str:
        """Of those who may read a partition, the one that has the fewest."""
        pool = self.pools[partition.topic_id]
        while pool[0][0] != len(self.given[pool[0][1]]):
            heapq.heappop(pool)
        return pool[0][1]

    def give(self, partition: TopicIdPartition, member: str) -> None:
        self.given[member].add(partition)
        self._changed(member)

    def _changed(self, member: str) -> None:
        for pool in self._pools_of[member]:
            heapq.heappush(pool, (len(self.given[member]), member))

    def level(self) -> None:
        """Move partitions from those who have more to those who have at least two fewer.

        Every move makes the sum of the squares smaller, so this ends.
        """
        while self._round():
            pass

    def _round(self) -> bool:
        """Whoever has most gives one, again and again; whether anything was given."""
        moved = False
        queue = [(-len(mine), member) for member, mine in self.given.items()]
        heapq.heapify(queue)
        offers = {
            member: iter(sorted(mine, key=self.rarity, reverse=True))
            for member, mine in self.given.items()
        }
        while queue:
            _, member = heapq.heappop(queue)
            if self._gives_one(member, offers[member]):
                moved = True
                heapq.heappush(queue, (-len(self.given[member]), member))
        return moved

    def _gives_one(self, member: str, offers: Iterator[TopicIdPartition]) -> bool:
        mine = self.given[member]
        for partition in offers:
            least = self.least(partition)
            if len(mine) - len(self.given[least]) >= 2:
                mine.remove(partition)
                self._changed(member)
                self.give(partition, least)
                return True
        return False


ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniform, "range": assign_range}
