"""Topics that grow, lose their id, or vanish; and what a new controller makes of what it finds."""

from dataclasses import replace

import pytest

from klamm.controller import events
from klamm.controller.effects import (
    LeaderAndIsr,
    RemoveNotifications,
    RewriteTopic,
    StopReplica,
    UpdateMetadata,
)
from klamm.controller.states import PartitionState
from klamm.controller.turn import ControllerSettings
from klamm.model.leadership import Leadership
from klamm.model.names import ZERO_ID, BrokerId
from world.cluster import World, tp

ONE, TWO = BrokerId(1), BrokerId(2)


@pytest.fixture
def world() -> World:
    world = World([1, 2])
    world.elect(1)
    world.create("T", [[1, 2]])
    world.deliver()
    return world


def test_added_partitions_are_led_and_old_ones_are_left_alone(world: World) -> None:
    before = world.state("T-0")
    world.store.grow_topic("T", [[2, 1], [1, 2]])
    world.tell_topics()
    assert [world.state(f"T-{p}").leader for p in range(3)] == [1, 2, 1]
    assert world.state("T-0") == before


def test_changed_replica_lists_of_known_partitions_are_ignored(world: World) -> None:
    node = world.store.topics["T"]
    other = replace(node.partitions[0], replicas=(TWO,))
    world.store.topics["T"] = replace(node, partitions={0: other}, version=node.version + 1)
    written = len(world.store.writes)
    world.tell_topics()
    assert world.store.writes[written:] == []


def test_a_topic_made_without_an_id_gets_one(world: World) -> None:
    world.store.create_topic("U", [[1]])
    node = replace(world.store.topics["U"], id_missing=True)
    world.handle(events.TopicsChanged({"U": node}))
    rewritten = [w for w in world.store.writes if isinstance(w, RewriteTopic)]
    assert [(w.topic, w.node.topic_id) for w in rewritten] == [("U", node.topic_id)]


def test_a_topic_that_lost_its_id_to_an_old_tool_gets_it_back(world: World) -> None:
    node = world.store.topics["T"]
    known = node.topic_id
    stripped = replace(node, topic_id=ZERO_ID, id_missing=True, version=node.version + 1)
    world.store.topics["T"] = stripped
    world.tell_topics()
    assert world.store.topics["T"].topic_id == known
    assert world.core.context.topics["T"].id == known


def test_a_topic_removed_by_hand_is_stopped_everywhere_and_forgotten(world: World) -> None:
    world.store.remove_topic_by_hand("T")
    world.tell_topics()
    sent = world.take_mail()
    assert [(type(r), r.to) for r in sent] == [
        (UpdateMetadata, 1),
        (UpdateMetadata, 2),
        (StopReplica, 1),
        (StopReplica, 2),
    ]
    stops = [r.orders[0] for r in sent if isinstance(r, StopReplica)]
    assert [(o.leader_epoch, o.delete) for o in stops] == [(-2, False)] * 2
    assert world.core.context.topics == {}
    assert world.warnings()[-1].startswith("topic T was removed from the store by hand")


def test_a_topic_whose_removal_a_new_controller_finds_half_done_is_forgotten_too(
    world: World,
) -> None:
    world.create("U", [[2]])
    world.deliver()
    one, _ = world.brokers.values()
    assert tp("U-0") in one.metadata
    world.stop_broker(2, told=False)
    del world.store.states[tp("U-0")]
    world.elect(1)
    world.deliver()
    world.store.remove_topic_by_hand("U")
    world.tell_topics()
    world.deliver()
    assert tp("U-0") not in one.metadata


def test_its_logs_go_too_where_the_settings_say_so(world: World) -> None:
    world.settings = ControllerSettings(vanished_deletes_logs=True)
    world.core.settings = world.settings
    world.stop_broker(2)
    world.store.remove_topic_by_hand("T")
    world.tell_topics()
    world.deliver()
    world.start_broker(2)
    world.deliver()
    assert [broker.logs for broker in world.brokers.values()] == [{}, {}]


def test_re_creating_a_topic_removed_by_hand_works_at_once(world: World) -> None:
    world.settings = world.core.settings = ControllerSettings(vanished_deletes_logs=True)
    world.store.remove_topic_by_hand("T")
    world.tell_topics()
    world.create("T", [[2]])
    world.deliver()
    assert world.state("T-0").leader == 2
    assert TWO in [b.id for b in world.brokers.values() if tp("T-0") in b.logs]


def test_a_topic_removed_and_re_created_between_two_looks_is_a_new_topic(world: World) -> None:
    old = world.store.topics["T"].topic_id
    world.store.remove_topic_by_hand("T")
    world.store.create_topic("T", [[2, 1]])
    world.tell_topics()
    assert old not in world.core.context.names
    assert world.state("T-0").leader == 2


def test_a_state_that_is_there_already_is_adopted_and_led_anew(world: World) -> None:
    # The answer to an earlier create was lost, or another term got this far.
    world.store.create_topic("U", [[2, 1]])
    found = Leadership(leader=ONE, leader_epoch=3, isr=(ONE,), controller_epoch=1)
    world.store.states[tp("U-0")] = found
    world.tell_topics()
    assert world.state("U-0") == replace(found, leader_epoch=4, partition_epoch=1)
    partition = world.core.context.partition(tp("U-0"))
    assert partition is not None
    assert partition.state is PartitionState.ONLINE
    told = [(m.before, m.after) for m in world.transitions() if m.subject == "U-0"]
    # Without a gap: an audit follows the chain.
    assert told == [("NonExistent", "New"), ("New", "Offline"), ("Offline", "Online")]


def test_a_growing_topic_is_not_rewritten_over(world: World) -> None:
    # Partitions were added while a move was on its way to the store.
    once = iter([True])

    def interfere(_: object) -> None:
        if next(once, False):
            world.store.grow_topic("T", [[2]])

    world.before_commit = interfere
    world.ask(events.ReassignmentsAsked({tp("T-0"): (TWO, ONE)}))
    assert list(world.store.topics["T"].partitions) == [0, 1]
    assert world.store.topics["T"].partitions[0].replicas == (TWO, ONE)


def test_a_new_controller_tells_brokers_of_each_other_before_any_order(world: World) -> None:
    world.elect(2)
    sent = world.take_mail()
    kinds = [(type(r), r.to, len(getattr(r, "partitions", ()))) for r in sent]
    assert kinds[:4] == [
        (UpdateMetadata, 1, 0),
        (UpdateMetadata, 2, 0),
        (LeaderAndIsr, 1, 0),
        (LeaderAndIsr, 2, 0),
    ]


def test_a_new_controller_elects_where_the_leader_is_gone(world: World) -> None:
    world.stop_broker(1, told=False)
    world.elect(2)
    assert world.state("T-0").leader == 2
    assert world.state("T-0").controller_epoch == 2


def test_a_new_controller_leads_topics_nobody_has_seen_yet(world: World) -> None:
    world.store.create_topic("U", [[2, 1]])
    world.elect(2)
    assert world.state("U-0").leader == 2


def test_a_new_controller_removes_notices_it_has_no_use_for(world: World) -> None:
    world.store.log_dir_notices["log_dir_event_7"] = ONE
    world.elect(2)
    assert RemoveNotifications(("log_dir_event_7",)) in world.store.writes


def test_a_new_controller_follows_the_legacy_requests(world: World) -> None:
    world.store.reassignment_requests = {tp("T-0"): (TWO,)}
    world.elect(1)
    world.deliver()
    assert world.store.topics["T"].partitions[0].replicas == (TWO,)
    assert world.store.reassignment_requests == {}


def test_many_partitions_are_stored_and_told_some_at_a_time() -> None:
    world = World([1, 2])
    world.elect(1)
    before = len(world.decisions)
    world.create("T", [[1, 2]] * 2500)
    sizes = [len(d.writes) for d in world.decisions[before:] if d.writes]
    assert sizes == [1000, 1000, 500]
    told = [
        (step, len(request.orders))
        for step, decision in enumerate(world.decisions[before:])
        for request in decision.requests
        if isinstance(request, LeaderAndIsr) and request.to == 2
    ]
    assert told == [(1, 1000), (2, 1000), (3, 500)], "the first go out while others are stored"
    world.deliver()
    assert len(world.brokers[BrokerId(2)].logs) == 2500


def test_a_partition_that_could_not_be_initialised_is_tried_again_by_a_timer() -> None:
    world = World([1, 2])
    world.elect(1)
    hidden = {}

    def hide(_: object) -> None:
        hidden.update(world.store.topics)
        world.store.topics.clear()

    world.before_commit = hide
    world.create("T", [[1, 2]])
    world.before_commit = None
    world.store.topics.update(hidden)
    partition = world.core.context.partition(tp("T-0"))
    assert partition is not None
    assert partition.state is PartitionState.NEW
    assert "T-0 stays New: its state is not in the store" in world.warnings()
    world.handle(events.RetryDue())
    assert world.state("T-0").leader == 1


def test_a_topic_removed_by_hand_ends_in_the_ledger_with_all_that_belonged_to_it() -> None:
    world = World([1, 2])
    world.elect(1)
    world.create("T", [[1, 2]])
    world.deliver()
    told = len(world.transitions())
    world.store.remove_topic_by_hand("T")
    world.tell_topics()
    assert [(m.subject, m.before, m.after) for m in world.transitions()[told:]] == [
        ("topic T", "created", "queued for deletion"),
        ("topic T", "queued for deletion", "deleting"),
        ("T-0", "Online", "Offline"),
        ("T-0", "Offline", "NonExistent"),
        ("T-0 on broker 1", "Online", "DeletionSuccessful"),
        ("T-0 on broker 2", "Online", "DeletionSuccessful"),
        ("T-0 on broker 1", "DeletionSuccessful", "NonExistent"),
        ("T-0 on broker 2", "DeletionSuccessful", "NonExistent"),
        ("topic T", "deleting", "absent"),
    ]
    whys = {m.why for m in world.transitions()[told:] if m.why}
    assert whys == {"its node is gone"}
