"""Each answer to a leader that wants another ISR, in the order in which reasons are looked for."""

from dataclasses import replace

import pytest

from klamm.controller import events
from klamm.controller.effects import RemoveNotifications, UpdateMetadata, UpdateState
from klamm.controller.events import IsrChange
from klamm.model.errors import ErrorCode
from klamm.model.leadership import Leadership, Recovery
from klamm.model.names import ZERO_ID, BrokerId
from world.cluster import World, tp

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
SHRINK = IsrChange(topic="T", partition=0, leader_epoch=0, partition_epoch=0, isr=(ONE, TWO))


@pytest.fixture
def world() -> World:
    world = World([1, 2, 3])
    world.elect(1)
    world.create("T", [[1, 2, 3]])
    world.take_mail()
    return world


def ask(world: World, *changes: IsrChange, broker: BrokerId = ONE) -> events.IsrAnswer:
    epoch = world.store.brokers[broker].epoch
    return world.ask(
        events.IsrChangesAsked(broker=broker, broker_epoch=epoch, changes=tuple(changes))
    )


def code(world: World, change: IsrChange) -> ErrorCode:
    before = world.state("T-0")
    (result,) = ask(world, change).results
    assert world.state("T-0") == before
    return result[1]


def test_a_change_keeps_the_leader_epoch_and_raises_the_partition_epoch(world: World) -> None:
    answer = ask(world, SHRINK)
    after = Leadership(
        leader=ONE, leader_epoch=0, isr=(ONE, TWO), controller_epoch=1, partition_epoch=1
    )
    assert answer == events.IsrAnswer(ErrorCode.NONE, ((SHRINK, ErrorCode.NONE, after),))
    assert world.store.writes[-1] == UpdateState(tp("T-0"), after)


def test_every_broker_hears_of_it_and_no_replica_is_ordered_about(world: World) -> None:
    ask(world, SHRINK)
    assert [(type(r), r.to) for r in world.take_mail()] == [
        (UpdateMetadata, 1),
        (UpdateMetadata, 2),
        (UpdateMetadata, 3),
    ]


def test_topics_may_be_named_by_their_id(world: World) -> None:
    change = replace(SHRINK, topic=world.store.topics["T"].topic_id)
    (result,) = ask(world, change).results
    assert result[1] is ErrorCode.NONE
    unknown = replace(SHRINK, topic=ZERO_ID)
    assert code(world, unknown) is ErrorCode.UNKNOWN_TOPIC_ID


def test_a_sender_of_another_registration_is_refused_as_a_whole(world: World) -> None:
    stale = events.IsrChangesAsked(broker=ONE, broker_epoch=1, changes=(SHRINK,))
    assert world.ask(stale) == events.IsrAnswer(ErrorCode.STALE_BROKER_EPOCH)
    unknown = events.IsrChangesAsked(broker=BrokerId(9), broker_epoch=1, changes=(SHRINK,))
    assert world.ask(unknown) == events.IsrAnswer(ErrorCode.STALE_BROKER_EPOCH)


def test_an_unknown_partition(world: World) -> None:
    change = replace(SHRINK, partition=9)
    assert code(world, change) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("field", ["leader_epoch", "partition_epoch"])
def test_a_leader_that_knows_more_than_the_controller(world: World, field: str) -> None:
    assert code(world, replace(SHRINK, **{field: 5})) is ErrorCode.NOT_CONTROLLER


def test_a_leader_of_an_earlier_epoch(world: World) -> None:
    world.ask(events.ElectionsAsked(events.ElectionType.UNCLEAN, None))
    world.stop_broker(3)
    change = replace(SHRINK, partition_epoch=world.state("T-0").partition_epoch)
    assert code(world, change) is ErrorCode.FENCED_LEADER_EPOCH


def test_the_same_again_succeeds_without_a_write(world: World) -> None:
    ask(world, SHRINK)
    assert code(world, SHRINK) is ErrorCode.NONE


def test_a_change_based_on_an_older_version(world: World) -> None:
    ask(world, SHRINK)
    assert code(world, replace(SHRINK, isr=(ONE,))) is ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.parametrize("isr", [(), (ONE, BrokerId(7)), (ONE, TWO, TWO), (TWO, THREE)])
def test_an_isr_that_cannot_be(world: World, isr: tuple[BrokerId, ...]) -> None:
    assert code(world, replace(SHRINK, isr=isr)) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("isr", [(ONE,), (ONE, TWO)])
def test_recovering_is_not_for_a_leader_to_say(world: World, isr: tuple[BrokerId, ...]) -> None:
    change = replace(SHRINK, isr=isr, recovery=Recovery.RECOVERING)
    assert code(world, change) is ErrorCode.INVALID_REQUEST


def test_a_leader_that_has_recovered_says_so(world: World) -> None:
    world.handle(events.UncleanSwitched("T", True))
    for broker in (3, 2, 1):
        world.stop_broker(broker)
    world.start_broker(3)
    now = world.state("T-0")
    assert now.recovery is Recovery.RECOVERING
    change = replace(
        SHRINK, leader_epoch=now.leader_epoch, partition_epoch=now.partition_epoch, isr=(THREE,)
    )
    ask(world, change, broker=THREE)
    assert world.state("T-0").recovery is Recovery.RECOVERED


def test_a_member_that_is_not_live_or_is_leaving(world: World) -> None:
    world.stop_broker(3)
    world.ask(events.ShutdownAsked(TWO))
    now = world.state("T-0")
    for member in (TWO, THREE):
        change = replace(
            SHRINK,
            leader_epoch=now.leader_epoch,
            partition_epoch=now.partition_epoch,
            isr=(ONE, member),
        )
        epoch = world.store.brokers[ONE].epoch
        answer = world.ask(
            events.IsrChangesAsked(broker=ONE, broker_epoch=epoch, changes=(change,))
        )
        assert answer.results[0][1] is ErrorCode.INELIGIBLE_REPLICA


def test_a_member_counts_only_in_the_registration_the_leader_saw(world: World) -> None:
    change = replace(SHRINK, isr_epochs={ONE: -1, TWO: 5})
    assert code(world, change) is ErrorCode.INELIGIBLE_REPLICA


def test_a_write_that_came_too_late_is_refused_and_what_was_found_is_known(world: World) -> None:
    found = replace(world.state("T-0"), isr=(ONE, THREE), partition_epoch=3)

    def interfere(_: object) -> None:
        world.store.states[tp("T-0")] = found

    world.before_commit = interfere
    (result,) = ask(world, SHRINK).results
    assert result[1] is ErrorCode.INVALID_UPDATE_VERSION
    partition = world.core.context.partition(tp("T-0"))
    assert partition is not None
    assert partition.leadership == found


def test_an_isr_that_its_leader_stored_is_taken_up_and_published(world: World) -> None:
    known = world.state("T-0")
    stored = replace(known, isr=(ONE, TWO), partition_epoch=known.partition_epoch + 1)
    world.store.states[tp("T-0")] = stored
    world.handle(events.IsrChangesNoticed({tp("T-0"): stored}, ("isr_change_0",)))
    assert [(type(r), r.to) for r in world.take_mail()] == [
        (UpdateMetadata, 1),
        (UpdateMetadata, 2),
        (UpdateMetadata, 3),
    ]
    assert world.store.writes[-1] == RemoveNotifications((), ("isr_change_0",))
    # The next change is judged by what is stored.
    grow = replace(SHRINK, partition_epoch=stored.partition_epoch, isr=(ONE, TWO, THREE))
    ((_, code, _),) = ask(world, grow).results
    assert code is ErrorCode.NONE


def test_a_notice_about_what_was_written_since_changes_nothing(world: World) -> None:
    before = world.state("T-0")
    ask(world, SHRINK)
    world.handle(events.IsrChangesNoticed({tp("T-0"): before, tp("gone-0"): before}, ("n",)))
    (result,) = ask(world, replace(SHRINK, partition_epoch=1)).results
    assert result[2] is not None
    assert result[2].isr == (ONE, TWO)
