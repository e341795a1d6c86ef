"""Elections on request, on a timer, and by the legacy node; producer ids."""

import pytest

from klamm.controller import events
from klamm.controller.events import ElectionType, PartitionFault
from klamm.controller.turn import ControllerSettings
from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId, TopicPartition
from klamm.model.topics import ProducerIdBlock
from world.cluster import World, tp

PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN


@pytest.fixture
def world() -> World:
    """Broker 1 was away: T-0 is led by 2, and 1 has caught up again."""
    world = World([1, 2, 3])
    world.elect(3)
    world.create("T", [[1, 2], [2, 1]])
    world.deliver()
    world.stop_broker(1)
    world.start_broker(1)
    world.change_isr("T-0", 2, 1)
    world.change_isr("T-1", 2, 1)
    return world


def codes(answer: events.ElectionsAnswer) -> dict[TopicPartition, ErrorCode]:
    return {id: fault.code for id, fault in answer.results.items()}


def test_a_preferred_election_gives_leadership_back(world: World) -> None:
    answer = world.ask(events.ElectionsAsked(PREFERRED, (tp("T-0"),)))
    assert answer.results == {tp("T-0"): PartitionFault()}
    assert answer.leader_epochs == {tp("T-0"): world.state("T-0").leader_epoch}
    assert world.state("T-0").leader == 1


def test_who_leads_already_needs_no_election(world: World) -> None:
    answer = world.ask(events.ElectionsAsked(PREFERRED, (tp("T-1"),)))
    assert codes(answer) == {tp("T-1"): ErrorCode.ELECTION_NOT_NEEDED}


def test_asked_for_everything_what_needs_none_is_left_out(world: World) -> None:
    answer = world.ask(events.ElectionsAsked(PREFERRED, None))
    assert codes(answer) == {tp("T-0"): ErrorCode.NONE}


def test_a_preferred_leader_that_is_not_there(world: World) -> None:
    world.stop_broker(1)
    answer = world.ask(events.ElectionsAsked(PREFERRED, (tp("T-0"),)))
    assert codes(answer) == {tp("T-0"): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}


def test_unknown_and_doomed_partitions(world: World) -> None:
    world.delete("T")
    answer = world.ask(events.ElectionsAsked(PREFERRED, (tp("T-0"), tp("U-0"))))
    assert codes(answer) == {
        tp("T-0"): ErrorCode.INVALID_TOPIC_EXCEPTION,
        tp("U-0"): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_an_unclean_election_on_request_needs_no_other_permission(world: World) -> None:
    world.stop_broker(1)
    world.stop_broker(2)
    world.start_broker(1)
    assert world.state("T-0").leader == -1
    answer = world.ask(events.ElectionsAsked(UNCLEAN, (tp("T-0"),)))
    assert codes(answer) == {tp("T-0"): ErrorCode.NONE}
    assert (world.state("T-0").leader, world.state("T-0").isr) == (1, (1,))


def test_an_unclean_election_is_refused_while_there_is_a_leader(world: World) -> None:
    answer = world.ask(events.ElectionsAsked(UNCLEAN, (tp("T-0"),)))
    assert codes(answer) == {tp("T-0"): ErrorCode.ELECTION_NOT_NEEDED}


def test_an_unclean_election_without_any_live_replica(world: World) -> None:
    world.stop_broker(1)
    world.stop_broker(2)
    answer = world.ask(events.ElectionsAsked(UNCLEAN, (tp("T-0"),)))
    assert codes(answer) == {tp("T-0"): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}


def test_the_legacy_request_is_followed_and_removed(world: World) -> None:
    world.store.election_requests = (tp("T-0"), tp("nothing-0"))
    world.handle(events.ElectionsRequested(world.store.election_requests))
    assert world.state("T-0").leader == 1
    assert world.store.election_requests == ()


def test_the_rebalance_acts_when_too_many_leaders_are_astray(world: World) -> None:
    world.handle(events.RebalanceDue())
    assert world.state("T-0").leader == 1


def test_the_rebalance_leaves_a_small_imbalance_alone() -> None:
    world = World([1, 2], settings=ControllerSettings(imbalance_percentage=50))
    world.elect(1)
    world.create("T", [[1, 2], [1, 2]])
    world.deliver()
    world.stop_broker(1)
    world.start_broker(1)
    for partition in ("T-0", "T-1"):
        world.change_isr(partition, 2, 1)
    world.ask(events.ElectionsAsked(PREFERRED, (tp("T-1"),)))
    world.handle(events.RebalanceDue())
    assert world.state("T-0").leader == 2


def test_the_rebalance_moves_a_bounded_number_a_round_and_says_how_many_are_left() -> None:
    world = World([1, 2], settings=ControllerSettings(rebalance_batch_max=2))
    world.elect(1)
    world.create("T", [[1, 2]] * 5)
    world.deliver()
    world.stop_broker(1)
    world.start_broker(1)
    for p in range(5):
        world.change_isr(f"T-{p}", 2, 1)
    assert [world.handle(events.RebalanceDue()) for _ in range(3)] == [3, 1, 0]
    assert {world.state(f"T-{p}").leader for p in range(5)} == {1}


def test_the_rebalance_does_not_elect_who_is_not_in_sync(world: World) -> None:
    world.stop_broker(1)
    world.start_broker(1)
    world.handle(events.RebalanceDue())
    assert world.state("T-0").leader == 2


def test_producer_ids_are_given_out_once(world: World) -> None:
    epoch = world.store.brokers[BrokerId(1)].epoch
    first = world.ask(events.ProducerIdsAsked(BrokerId(1), epoch))
    assert first == events.ProducerIdsAnswer(ErrorCode.NONE, 0, 1000)
    # The second one was asked with a block that is out of date by now.
    second = world.ask(events.ProducerIdsAsked(BrokerId(1), epoch))
    assert second == events.ProducerIdsAnswer(ErrorCode.NONE, 1000, 1000)


def test_producer_ids_end_before_they_overflow(world: World) -> None:
    epoch = world.store.brokers[BrokerId(1)].epoch
    last = ProducerIdBlock(BrokerId(1), 2**63 - 1000, 2**63 - 1)
    answer = world.ask(events.ProducerIdsAsked(BrokerId(1), epoch, last))
    assert answer.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_producer_ids_are_for_registered_brokers(world: World) -> None:
    unknown = world.ask(events.ProducerIdsAsked(BrokerId(9), 1))
    assert unknown.code is ErrorCode.BROKER_ID_NOT_REGISTERED
    stale = world.ask(events.ProducerIdsAsked(BrokerId(1), 1))
    assert stale.code is ErrorCode.STALE_BROKER_EPOCH
