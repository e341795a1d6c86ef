"""What a topic's node takes in the store, and which topics are too large for it."""

import uuid

import pytest

from klamm.controller import events
from klamm.controller.admission.node_size import (
    NODE_BYTES_MAX,
    digits_below,
    node_bytes,
    partitions_fault,
    placement_fault,
)
from klamm.model.assignment import Assignment
from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId
from klamm.store import layout
from world.cluster import World, tp

ID = uuid.UUID(int=7 << 64)
BROKERS = [BrokerId(b) for b in (0, 5, 10, 4000)]


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 99, 100, 101, 1234])
def test_digits_are_counted_without_counting_to_them(count: int) -> None:
    assert digits_below(count) == sum(len(str(number)) for number in range(count))


@pytest.mark.parametrize(
    "assignment",
    [
        Assignment((BrokerId(1), BrokerId(20))),
        Assignment((BrokerId(1), BrokerId(20))).towards((BrokerId(3), BrokerId(20))),
    ],
)
def test_the_size_is_that_of_the_node(assignment: Assignment) -> None:
    partitions = dict.fromkeys(range(1200), assignment)
    original = {n: a.origin for n, a in partitions.items() if a.is_reassigning}
    node = layout.TopicNode(ID, partitions, original)
    assert 0 <= node_bytes(partitions) - len(layout.encode_topic(node)) < 200


def test_what_automatic_placement_takes_is_told_before_it_is_done() -> None:
    assert partitions_fault("t", BROKERS, count=50_000, factor=1) is None
    fault = partitions_fault("t", BROKERS, count=2_000_000_000, factor=3)
    assert fault is not None
    assert fault.code is ErrorCode.INVALID_PARTITIONS
    assert f"the limit is {NODE_BYTES_MAX}" in fault.why


def test_partitions_that_are_there_count() -> None:
    present = dict.fromkeys(range(40_000), Assignment(tuple(BROKERS)))
    assert partitions_fault("t", BROKERS, count=55_000, factor=1) is None
    assert partitions_fault("t", BROKERS, count=55_000, factor=1, present=present) is not None


def test_a_chosen_assignment_counts_as_it_is() -> None:
    assert placement_fault("t", dict.fromkeys(range(10_000), tuple(BROKERS))) is None
    assert placement_fault("t", dict.fromkeys(range(80_000), tuple(BROKERS))) is not None


def test_a_move_that_the_node_cannot_carry_is_refused() -> None:
    world = World([1, 2, 3])
    world.elect(1)
    count = 30_000
    world.create("T", [[1, 2]] * count)
    replicas = (BrokerId(2), BrokerId(3))
    answer = world.ask(events.ReassignmentsAsked({tp(f"T-{n}"): replicas for n in range(count)}))
    assert answer.results[tp("T-0")].code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "move fewer" in (answer.results[tp("T-0")].message or "")
    few = world.ask(events.ReassignmentsAsked({tp("T-0"): replicas}))
    assert few.results[tp("T-0")].code is ErrorCode.NONE
