"""The values that `status.py` and `states.py` answer with: one look at the whole cluster."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from enum import StrEnum

from klamm.controller.states import PartitionState, ReplicaState, TopicState
from klamm.model.assignment import Assignment
from klamm.model.leadership import Leadership
from klamm.model.names import BrokerId, TopicPartition


class Presence(StrEnum):
    """Whether a broker is there."""

    UP = "up"
    LEAVING = "shutting down"
    FENCED = "out of the controller's reach"
    DOWN = "down"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatus:
    """One broker that is registered, or that some assignment names."""

    id: BrokerId
    presence: Presence
    since_ms: int | None  # None where it is not known or does not matter
    address: str | None
    rack: str | None
    leads: int
    replicas: int
    offline_logs: int  # replicas in log directories that failed
    refused_orders: int  # replicas it would not serve


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionStatus:
    """One topic that is on its way out."""

    topic: str
    state: TopicState
    since_ms: int
    why_halted: str | None
    waits_for: tuple[BrokerId, ...]  # brokers that are away and have not confirmed


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveStatus:
    """One partition that is being moved."""

    partition: TopicPartition
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]
    caught_up: tuple[BrokerId, ...]  # those of `adding` that are in sync
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The cluster as its controller sees it."""

    controller: BrokerId
    epoch: int
    began_ms: int
    topics: int
    partitions: int
    brokers: tuple[BrokerStatus, ...]
    offline: tuple[TopicPartition, ...]
    under_replicated: tuple[TopicPartition, ...]  # offline ones are not counted again
    deletions: tuple[DeletionStatus, ...]
    moves: tuple[MoveStatus, ...]
    frozen: tuple[str, ...]
    importing: tuple[str, ...]
    refused: tuple[tuple[BrokerId, TopicPartition], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStates:
    """One partition, its leadership, and the state of each copy in the order of the assignment."""

    index: int
    state: PartitionState
    assignment: Assignment
    leadership: Leadership | None
    replica_states: tuple[ReplicaState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStates:
    """One topic with all its partitions."""

    name: str
    id: uuid.UUID
    state: TopicState
    partitions: tuple[PartitionStates, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """Some topics, and whether more follow behind the last of them."""

    topics: tuple[TopicStates, ...]
    more: bool
