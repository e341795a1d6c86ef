"""The states of a partition and of a replica, with the numbers Kafka's metrics give them."""

from __future__ import annotations

from enum import StrEnum


class PartitionState(StrEnum):
    """Where a partition is in its life."""

    NON_EXISTENT = "NonExistent"
    NEW = "New"
    ONLINE = "Online"
    OFFLINE = "Offline"


class ReplicaState(StrEnum):
    """Where one copy of a partition is in its life."""

    NON_EXISTENT = "NonExistent"
    NEW = "New"
    ONLINE = "Online"
    OFFLINE = "Offline"
    DELETION_STARTED = "DeletionStarted"
    DELETION_SUCCESSFUL = "DeletionSuccessful"
    DELETION_INELIGIBLE = "DeletionIneligible"
