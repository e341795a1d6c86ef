"""A topic, and the last block of producer ids, as the cluster's store has them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from klamm.model.assignment import Assignment
from klamm.model.names import BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTopic:
    """A topic as the store has it."""

    topic_id: uuid.UUID
    partitions: Mapping[int, Assignment]
    version: int = 0
    # The order before a running move, where there is one: what a cancel goes back to.
    original: Mapping[int, tuple[BrokerId, ...]] = field(default_factory=dict)
    unclean: bool | None = None  # the topic's own unclean.leader.election.enable, if it has one
    frozen: bool = False  # the topic's own klamm.frozen
    importing: bool = False  # the topic's own klamm.importing
    first_epoch: int = 0  # the leader epoch that its partitions begin with
    id_missing: bool = False  # the node has no id; the one given here was drawn for it


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """The last block of producer ids that was handed out."""

    broker: BrokerId
    first: int
    last: int
