"""The states of a topic, of a partition and of a replica.

The words of the last two are Kafka's, those of a topic are our own: Kafka has no name for them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

# What stands in the ledger instead of a state before the first one that a new controller saw.
FOUND: Final = "found"
# Of the ledger: since the second a topic's lines are a chain, and a new term says what it found.
EDITION: Final = 2


class TopicState(StrEnum):
    """The states in a topic's life."""

    ABSENT = "absent"
    IMPORTING = "importing"
    CREATED = "created"
    GROWING = "growing"
    FROZEN = "frozen"
    QUEUED = "queued for deletion"
    HALTED = "halted"
    DELETING = "deleting"


class PartitionState(StrEnum):
    """The states in a partition's life."""

    NON_EXISTENT = "NonExistent"
    NEW = "New"
    ONLINE = "Online"
    OFFLINE = "Offline"


class ReplicaState(StrEnum):
    """The states in the life of one copy of a partition."""

    NON_EXISTENT = "NonExistent"
    NEW = "New"
    ONLINE = "Online"
    OFFLINE = "Offline"
    DELETION_STARTED = "DeletionStarted"
    DELETION_SUCCESSFUL = "DeletionSuccessful"
    DELETION_INELIGIBLE = "DeletionIneligible"
