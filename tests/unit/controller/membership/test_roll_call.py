"""Orders and holdings in, what is left to say out; and the same end with a roll call as without."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from klamm.controller.effects import (
    LeaderAndIsr,
    PartitionMetadata,
    ReplicaOrder,
    Request,
    StopOrder,
    StopReplica,
    UpdateMetadata,
)
from klamm.controller.membership.roll_call import Holdings, Shown, digest, left_to_say
from klamm.model.assignment import Assignment
from klamm.model.brokers import Endpoint, Registration
from klamm.model.leadership import Leadership
from klamm.model.names import BrokerId, TopicPartition
from world.cluster import World, tp

ONE, TWO = BrokerId(1), BrokerId(2)
T_ID, U_ID = uuid.UUID(int=7), uuid.UUID(int=8)
IDS = {"T": T_ID, "U": U_ID}
BROKERS = {id: Registration(id=id, epoch=1, endpoints=(Endpoint("host", id),)) for id in (ONE, TWO)}


def led(epoch: int, leader: BrokerId = ONE) -> Leadership:
    return Leadership(
        leader=leader,
        leader_epoch=epoch,
        isr=(ONE, TWO),
        controller_epoch=1,
        partition_epoch=epoch + 10,
    )


def order(partition: str, epoch: int, leader: BrokerId = ONE) -> ReplicaOrder:
    return ReplicaOrder(tp(partition), led(epoch, leader), Assignment((ONE, TWO)))


def orders(*given: ReplicaOrder) -> LeaderAndIsr:
    ids = {o.partition.topic: IDS[o.partition.topic] for o in given}
    leaders = sorted({o.leadership.leader for o in given})
    return LeaderAndIsr(
        to=ONE,
        broker_epoch=1,
        orders=given,
        topic_ids=ids,
        leaders=tuple(BROKERS[leader] for leader in leaders),
    )


def shows(partition: str, epoch: int) -> PartitionMetadata:
    return PartitionMetadata(tp(partition), led(epoch), (ONE, TWO), ())


def metadata(*partitions: PartitionMetadata) -> UpdateMetadata:
    return UpdateMetadata(
        to=ONE,
        broker_epoch=1,
        partitions=partitions,
        topic_ids={m.partition.topic: IDS[m.partition.topic] for m in partitions},
        brokers=tuple(BROKERS.values()),
    )


def row(index: int, epoch: int) -> Shown:
    return (index, ONE, epoch, (ONE, TWO), (ONE, TWO), (), epoch + 10)


HELD = Holdings(
    {T_ID: {0: 4, 1: 5}, U_ID: {0: 0}},
    {"T": digest(T_ID, [row(1, 5), row(0, 4)]), "U": digest(U_ID, [row(0, 0)])},
)


def said(request: Request, held: Holdings = HELD) -> Request | None:
    rest, _ = left_to_say(request, held)
    return rest


def test_orders_that_were_obeyed_are_not_given_again() -> None:
    assert said(orders(order("T-0", 4), order("T-1", 5), order("U-0", 0))) is None


def test_an_order_of_another_epoch_is_given_alone() -> None:
    rest = said(orders(order("T-0", 4), order("T-1", 6, TWO), order("U-0", 0)))
    assert rest == orders(order("T-1", 6, TWO))


@pytest.mark.parametrize(
    "held",
    [
        Holdings(),
        Holdings({uuid.UUID(int=9): {0: 4}}),  # another topic of the name
        Holdings({T_ID: {1: 4}}),
        Holdings({T_ID: {0: 3}}),
        Holdings({T_ID: {0: 5}}),  # whoever knows more than the store is told, and says so
    ],
)
def test_what_is_not_claimed_is_ordered(held: Holdings) -> None:
    request = orders(order("T-0", 4))
    assert said(request, held) == request


def test_topics_that_look_the_same_are_not_told_again_but_brokers_are() -> None:
    rest = said(metadata(shows("T-1", 5), shows("T-0", 4), shows("U-0", 0)))
    assert rest == metadata()


def test_a_topic_with_one_partition_changed_is_told_whole() -> None:
    changed = (shows("T-0", 4), shows("T-1", 6))
    assert said(metadata(*changed, shows("U-0", 0))) == metadata(*changed)


Change = Callable[[PartitionMetadata], PartitionMetadata]


@pytest.mark.parametrize(
    "change",
    [
        lambda m: replace(m, is_deleted=True),
        lambda m: replace(m, replicas=(TWO, ONE)),
        lambda m: replace(m, offline=(TWO,)),
        lambda m: replace(m, leadership=replace(m.leadership, leader=TWO)),
        lambda m: replace(m, leadership=replace(m.leadership, isr=(ONE,))),
        lambda m: replace(m, leadership=replace(m.leadership, partition_epoch=11)),
    ],
)
def test_whatever_clients_would_see_otherwise_is_told(change: Change) -> None:
    request = metadata(change(shows("U-0", 0)))
    assert said(request) == request


def test_another_topic_of_the_name_is_told() -> None:
    request = replace(metadata(shows("U-0", 0)), topic_ids={"U": uuid.UUID(int=9)})
    assert said(request) == request


def test_some_partitions_of_a_topic_are_told() -> None:
    request = metadata(shows("T-0", 4))
    assert said(request) == request


def test_what_was_told_since_is_not_compared_with_what_was_claimed_before() -> None:
    news, back = metadata(shows("U-0", 1)), metadata(shows("U-0", 0))
    rest, held = left_to_say(news, HELD)
    assert rest == news
    assert said(back, held) == back


def test_after_a_stop_orders_are_given_again() -> None:
    stop = StopReplica(to=ONE, broker_epoch=1, orders=(StopOrder(tp("T-0"), T_ID, 4, True),))
    rest, held = left_to_say(stop, HELD)
    assert rest == stop
    assert said(orders(order("T-0", 4)), held) == orders(order("T-0", 4))


def ordered(requests: Iterable[Request]) -> dict[int, set[str]]:
    """Which partitions brokers were ordered to serve."""
    found: dict[int, set[str]] = {}
    for request in requests:
        if isinstance(request, LeaderAndIsr):
            found.setdefault(request.to, set()).update(str(o.partition) for o in request.orders)
    return found


def on_the_way(world: World) -> list[Request]:
    return [request for request, _ in world.mail]


@pytest.fixture
def world() -> World:
    world = World([0, 1, 2, 3])
    world.calls_roll = True
    world.elect(0)
    world.create("a", [[1, 2, 3], [0, 1]])
    world.create("b", [[2, 3]])
    world.deliver()
    return world


def test_a_failover_with_nothing_changed_orders_nothing(world: World) -> None:
    world.elect(1)
    mail = world.take_mail()
    assert ordered(mail) == {}
    assert [m for r in mail if isinstance(r, UpdateMetadata) for m in r.partitions] == []


def test_after_a_death_only_what_the_dead_one_hosted_is_ordered(world: World) -> None:
    world.stop_broker(0, told=False)
    world.elect(1)
    assert ordered(on_the_way(world)) == {1: {"a-1"}}
    world.deliver()
    assert world.brokers[ONE].roles[tp("a-1")].leader_epoch == world.state("a-1").leader_epoch


def test_a_broker_that_restarted_is_told_all(world: World) -> None:
    world.start_broker(2, told=False)
    world.elect(1)
    assert ordered(on_the_way(world)) == {2: {"a-0", "b-0"}}


def test_a_replica_on_a_failed_disk_is_ordered_so_that_its_refusal_is_heard(world: World) -> None:
    world.brokers[TWO].bad_disk[TopicPartition("b", 0)] = None
    world.elect(1)
    assert ordered(on_the_way(world)) == {2: {"b-0"}}
    world.deliver()
    assert world.state("b-0").leader == 3


def test_states_and_story_are_those_of_a_controller_that_tells_all(world: World) -> None:
    other = World([0, 1, 2, 3])
    other.elect(0)
    other.create("a", [[1, 2, 3], [0, 1]])
    other.create("b", [[2, 3]])
    other.deliver()
    for each in (world, other):
        each.stop_broker(0, told=False)
        each.elect(1)
        each.deliver()
    assert world.store.states == other.store.states
    # Ids are drawn anew in each world.
    assert [replace(m, topic_id=None) for m in world.transitions()] == [
        replace(m, topic_id=None) for m in other.transitions()
    ]
    for id in (1, 2, 3):
        mine, others = world.brokers[BrokerId(id)], other.brokers[BrokerId(id)]
        assert (mine.roles, mine.metadata) == (others.roles, others.metadata)
    assert [p.replica_states for p in world.core.context.partitions()] == [
        p.replica_states for p in other.core.context.partitions()
    ]
