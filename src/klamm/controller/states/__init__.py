"""The three state machines: their states, tables and rules, what runs them and what judges them."""

from klamm.controller.states.names import (
    EDITION,
    FOUND,
    PartitionState,
    ReplicaState,
    TopicState,
)

__all__ = ["EDITION", "FOUND", "PartitionState", "ReplicaState", "TopicState"]
