"""The three state machines side by side, for whoever draws them, judges by them or checks them.

The ledger tells of each by the same words: a subject, a state before and a state after.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from klamm.controller.states import (
    FOUND,
    PartitionState,
    ReplicaState,
    TopicState,
    partition_states,
    replica_states,
    topic_states,
)

# The subjects of the ledger; no topic has a space in its name.
TOPIC_SUBJECT: Final = r"^topic (.+)$"
PARTITION_SUBJECT: Final = r"^([^ ]+)-(\d+)$"
REPLICA_SUBJECT: Final = r"^([^ ]+)-(\d+) on broker (\d+)$"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One state machine."""

    entity: str
    subject: str  # an expression that fits the ledger's subjects of this kind, and no others
    states: type[StrEnum]
    transitions: Mapping[tuple[Any, Any], Callable[..., Any]]
    never: StrEnum  # where a thing is before its first transition and after its last
    unsaid: StrEnum  # where a new controller found what it says nothing about
    found: frozenset[StrEnum]  # where a new controller may find one
    # Whether one may end between two controllers, so that nobody wrote it down.
    ends_unseen: bool = False

    def legal(self) -> frozenset[tuple[str, str]]:
        """Every pair of words that may stand in the ledger."""
        moved = {(str(before), str(after)) for before, after in self.transitions}
        return frozenset(moved | {(FOUND, str(state)) for state in self.found})

    def words(self) -> frozenset[str]:
        """The names of its states."""
        return frozenset(str(state) for state in self.states)


TOPICS: Final = Machine(
    entity="topic",
    subject=TOPIC_SUBJECT,
    states=TopicState,
    transitions=topic_states.TRANSITIONS,
    never=TopicState.ABSENT,
    unsaid=TopicState.CREATED,
    found=frozenset(
        {TopicState.CREATED, TopicState.FROZEN, TopicState.IMPORTING, TopicState.QUEUED}
    ),
)
PARTITIONS: Final = Machine(
    entity="partition",
    subject=PARTITION_SUBJECT,
    states=PartitionState,
    transitions=partition_states.TRANSITIONS,
    never=PartitionState.NON_EXISTENT,
    unsaid=PartitionState.ONLINE,
    found=frozenset({PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}),
)
REPLICAS: Final = Machine(
    entity="replica",
    subject=REPLICA_SUBJECT,
    states=ReplicaState,
    transitions=replica_states.TRANSITIONS,
    never=ReplicaState.NON_EXISTENT,
    unsaid=ReplicaState.ONLINE,
    found=frozenset({ReplicaState.ONLINE, ReplicaState.DELETION_INELIGIBLE}),
    ends_unseen=True,  # it may be taken out of the assignment by a last write before a crash
)
MACHINES: Final = (TOPICS, PARTITIONS, REPLICAS)


def machine_of(subject: str) -> Machine | None:
    """The machine whose subject this is; None where it is of none."""
    return next((m for m in MACHINES if re.match(m.subject, subject)), None)
