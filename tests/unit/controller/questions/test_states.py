"""The states of everything, some topics at a time."""

import pytest

from klamm.controller import events
from klamm.controller.questions.survey import States
from klamm.controller.states import PartitionState, ReplicaState, TopicState
from world.cluster import World


@pytest.fixture
def world() -> World:
    world = World([1, 2, 3])
    world.elect(1)
    world.create("A", [[1, 2], [3, 1]])
    world.create("B", [[2, 3]])
    world.create("C", [[3]])
    world.deliver()
    return world


def ask(
    world: World, topics: tuple[str, ...] | None = None, after: str | None = None, most: int = 100
) -> States:
    return world.ask(events.StatesAsked(topics, after, most))


def names(found: States) -> list[str]:
    return [topic.name for topic in found.topics]


def test_a_replica_has_the_state_that_its_machine_gave_it(world: World) -> None:
    world.stop_broker(2)
    topic = ask(world, ("A",)).topics[0]
    assert (topic.name, topic.state) == ("A", TopicState.CREATED)
    first = topic.partitions[0]
    assert first.state is PartitionState.ONLINE
    assert first.replica_states == (ReplicaState.ONLINE, ReplicaState.OFFLINE)
    assert first.leadership is not None
    assert first.leadership.isr == (1,)


def test_topics_come_by_name_and_some_at_a_time(world: World) -> None:
    found = ask(world, most=2)
    assert (names(found), found.more) == (["A"], True)
    found = ask(world, after="A", most=2)
    assert (names(found), found.more) == (["B", "C"], False)


def test_a_topic_larger_than_the_limit_comes_alone_and_whole(world: World) -> None:
    found = ask(world, most=1)
    assert (names(found), len(found.topics[0].partitions)) == (["A"], 2)


def test_a_topic_on_its_way_out_is_still_told_of(world: World) -> None:
    world.stop_broker(3)
    world.delete("C")
    world.deliver()
    topic = ask(world, ("C",)).topics[0]
    assert topic.state is TopicState.HALTED
    assert topic.partitions[0].replica_states[0] in (
        ReplicaState.OFFLINE,
        ReplicaState.DELETION_INELIGIBLE,
    )


def test_names_that_nobody_has_are_left_out(world: World) -> None:
    assert names(ask(world, ("B", "nobody"))) == ["B"]


def test_all_that_waits_is_explained_at_once_and_what_is_well_is_not(world: World) -> None:
    assert world.ask(events.ExplanationsAsked(None, 10)) == {}
    world.stop_broker(3)
    found = world.ask(events.ExplanationsAsked(None, 10))
    assert list(found) == ["A", "B", "C"]
    assert found["C"] == world.ask(events.ExplanationAsked("C"))
    assert list(world.ask(events.ExplanationsAsked("A", 1))) == ["B"]
