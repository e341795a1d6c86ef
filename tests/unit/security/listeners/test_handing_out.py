"""A caller is told the addresses of the listener on which it asks."""

from __future__ import annotations

from klamm.model.brokers import Endpoint, Registration
from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId
from klamm.security.listeners.handing_out import clashing, coordinator, endpoints, leader_code

A, B = Endpoint("a", 1, "A", "SSL"), Endpoint("b", 2, "B", "PLAINTEXT")
BOTH = Registration(id=BrokerId(1), epoch=1, endpoints=(A, B))
ONLY_B = Registration(id=BrokerId(2), epoch=1, endpoints=(Endpoint("c", 3, "B"),))


def test_brokers_without_the_listener_are_left_out() -> None:
    assert endpoints([BOTH, ONLY_B], "A") == {1: A}
    assert set(endpoints([BOTH, ONLY_B], "B")) == {1, 2}


def test_leader_without_the_listener_has_a_code_that_the_version_knows() -> None:
    assert leader_code(ONLY_B, "A", 5) == 5
    assert leader_code(ONLY_B, "A", 6) == 72
    assert leader_code(None, "A", 9) == 5
    assert leader_code(BOTH, "A", 9) == 0


def test_coordinator_without_the_listener_is_not_available() -> None:
    assert coordinator(BOTH, "A") == A
    assert coordinator(ONLY_B, "A") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator(None, "A") is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_two_brokers_are_not_at_one_address() -> None:
    assert clashing([Endpoint("x", 1), Endpoint("c", 3)], [BOTH, ONLY_B]) == (
        "Configured end points x:1,c:3 in advertised listeners are already registered by broker 2"
    )
    assert clashing([Endpoint("c", 4)], [BOTH, ONLY_B]) is None
