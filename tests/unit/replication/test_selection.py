from __future__ import annotations

from klamm.model.names import BrokerId
from klamm.replication.selection import SELECTORS, Readable, leader_only, nearest

A, B, C = BrokerId(0), BrokerId(1), BrokerId(2)
REPLICAS = (
    Readable(A, "east", 90, 0),
    Readable(B, "west", 80, 0),
    Readable(C, "west", 85, 0),
)


def test_the_most_advanced_replica_of_the_rack_is_the_nearest() -> None:
    assert nearest("west", A, REPLICAS) == C


def test_the_leader_serves_its_own_rack_and_strangers() -> None:
    assert nearest("west", B, REPLICAS) == B
    assert nearest("north", A, REPLICAS) == A
    assert nearest("", A, [Readable(A, None, 9, 0), Readable(B, None, 9, 0)]) == A


def test_the_selectors_have_the_names_a_configuration_uses() -> None:
    assert SELECTORS[""] is leader_only
    assert SELECTORS["org.apache.kafka.common.replica.RackAwareReplicaSelector"] is nearest
