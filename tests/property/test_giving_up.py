"""Copies are given up at any point of a deletion, on brokers that went, come back or never were.

Whatever the order, every line of the ledger is legal and joins the one before (`World.handle` looks
after each event), the topic ends, and its last line tells whether everybody has confirmed.
"""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from klamm.controller import events
from klamm.controller.turn import ControllerSettings
from klamm.model.names import BrokerId
from world.cluster import World
from world.settled import change_isr, settle

BROKERS = (1, 2, 3)
NEVER_THERE = 7
KINDS = ("give up", "stop", "start", "deliver one", "answer", "retry", "freeze", "move", "elect")

steps = st.tuples(st.sampled_from(KINDS), st.sampled_from((*BROKERS, NEVER_THERE)))
assignments = st.lists(
    st.lists(st.sampled_from((*BROKERS, NEVER_THERE)), min_size=1, max_size=3, unique=True),
    min_size=1,
    max_size=2,
)


def take(world: World, kind: str, broker: int) -> None:
    id = BrokerId(broker)
    match kind:
        case "give up":
            world.ask(events.ReplicaGivenUp("T", id))
        case "stop" if id in world.store.brokers:
            world.stop_broker(broker)
        case "start" if broker != NEVER_THERE:
            world.start_broker(broker)
        case "deliver one":
            world.deliver_one()
        case "answer" if world.answers:
            world.handle(world.answers.popleft())
        case "retry":
            world.handle(events.RetryDue())
        case "freeze":
            world.handle(events.FreezeSwitched("T", broker % 2 == 0))
        case "move" if broker != NEVER_THERE:
            partitions = world.core.context.partitions_of(world.core.context.topics)
            world.ask(events.ReassignmentsAsked({p.id: (id,) for p in partitions}))
        case "elect":
            world.elect(3)
        case _:
            pass


def end(world: World) -> None:
    """Everybody who can be there is, moves end, and who cannot be there is given up."""
    settle(world, same_controller=True)
    for id in list(world.store.states):
        change_isr(world, id, set(BROKERS))
    world.ask(events.ReplicaGivenUp("T", BrokerId(NEVER_THERE)))
    settle(world, same_controller=True)


@settings(max_examples=60, deadline=None)
@given(
    assignment=assignments,
    before=st.lists(steps, max_size=6),
    after=st.lists(steps, max_size=14),
    cancellable=st.booleans(),
)
@example(assignment=[[1, 7]], before=[], after=[("give up", 7)], cancellable=False)
@example(assignment=[[1, 2]], before=[("stop", 2)], after=[("give up", 2)], cancellable=True)
@example(
    assignment=[[2, 3]],
    before=[("stop", 2), ("move", 1)],
    after=[("give up", 2)],
    cancellable=False,
)
@example(
    assignment=[[1, 2]],
    before=[("stop", 2), ("move", 2)],
    after=[("give up", 2)],
    cancellable=False,
)
@example(
    assignment=[[1, 2, 3]],
    before=[("stop", 2), ("stop", 3)],
    after=[("give up", 2), ("start", 2), ("start", 3)],
    cancellable=False,
)
def test_the_ledger_tells_of_it_truly(
    assignment: list[list[int]],
    before: list[tuple[str, int]],
    after: list[tuple[str, int]],
    cancellable: bool,
) -> None:
    world = World(BROKERS, settings=ControllerSettings(deletion_cancellable=cancellable))
    world.elect(3)
    world.create("T", assignment)
    for kind, broker in before:
        take(world, kind, broker)
    world.delete("T")
    for kind, broker in after:
        take(world, kind, broker)
    end(world)

    assert world.store.topics == {}
    assert not any(broker.logs for broker in world.brokers.values())
    lines = [m for d in world.decisions for m in d.transitions]
    end_at = max(at for at, m in enumerate(lines) if m.subject == "topic T")
    began_at = max(at for at, m in enumerate(lines[:end_at]) if m.before == "standby")
    given_up = {
        int(m.subject.rpartition(" ")[2])
        for m in lines[began_at:end_at]
        if m.why == "given up by hand"
    }
    last = lines[end_at]
    assert (last.before, last.after) == ("deleting", "absent")
    if given_up:
        which = ", ".join(map(str, sorted(given_up)))
        assert last.why.endswith(f"on broker{'s' * (len(given_up) > 1)} {which}: given up")
    else:
        assert last.why == "every replica has confirmed"
