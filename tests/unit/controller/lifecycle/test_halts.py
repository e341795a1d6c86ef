"""Every reason for which a deletion halts, wherever it is found, and every reason to go on.

Each test tells its reasons with `@because`, and fails unless the ledger has them; the
last one fails for a reason that has no test.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import pytest

from klamm.controller import events
from klamm.controller.effects import StopReplica
from klamm.controller.lifecycle.deletion import Halt, Release
from klamm.controller.turn import ControllerSettings
from klamm.model.names import BrokerId
from world.cluster import World, tp

ONE, TWO, THREE = map(BrokerId, (1, 2, 3))
TOLD: dict[Halt | Release, list[str]] = {}
Test = Callable[[World], None]


def because(*reasons: Halt | Release) -> Callable[[Test], Test]:
    """The ledger of this test has these reasons, in this order, and ends with the topic gone."""

    def register(test: Test) -> Test:
        for reason in reasons:
            TOLD.setdefault(reason, []).append(test.__name__)

        @wraps(test)
        def run(world: World) -> None:
            test(world)
            steps = [m.why for m in world.transitions() if "halted" in (m.before, m.after)]
            assert steps == [str(reason) for reason in reasons]
            assert is_gone(world)

        return run

    return register


@pytest.fixture
def world() -> World:
    """T-0 on brokers 1 and 2; broker 3 is the controller."""
    world = World([1, 2, 3])
    world.elect(3)
    world.create("T", [[1, 2]])
    world.deliver()
    return world


def is_gone(world: World) -> bool:
    left = [world.store.topics, world.store.markers, world.core.context.topics]
    logs = [id for broker in world.brokers.values() for id in broker.logs]
    return not any("T" in names for names in left) and logs == []


def halted(world: World) -> str | None:
    return world.core.context.deletions["T"].halted


@because(Halt.OFFLINE, Release.BROKER_BACK)
def test_a_broker_that_is_down_when_it_starts_halts_it_until_it_is_back(world: World) -> None:
    world.stop_broker(2)
    world.delete("T")
    world.deliver()
    world.start_broker(2)
    world.deliver()


@because(Halt.OFFLINE, Release.BROKER_BACK)
def test_a_broker_that_goes_down_meanwhile_halts_it_until_it_is_back(world: World) -> None:
    world.delete("T")
    world.mail = type(world.mail)(m for m in world.mail if m[0].to != 2)
    world.stop_broker(2)
    world.deliver()
    assert halted(world) == Halt.OFFLINE
    world.start_broker(2)
    world.deliver()


@because(Halt.OFFLINE, Release.BROKER_BACK)
def test_a_broker_that_is_down_at_a_failover_halts_it_until_it_is_back(world: World) -> None:
    world.stop_broker(2)
    world.store.markers["T"] = None  # nobody has seen it before the controller dies
    world.elect(1)
    world.deliver()
    world.start_broker(2)
    world.deliver()


@because(Halt.OFFLINE, Release.BROKER_BACK)
def test_one_that_can_be_called_off_does_not_start_with_a_broker_down(world: World) -> None:
    world.core.settings = ControllerSettings(deletion_cancellable=True)
    world.stop_broker(2)
    world.delete("T")
    assert not any(isinstance(r, StopReplica) for r in world.take_mail())
    world.start_broker(2)
    world.deliver()


@because(Halt.REFUSED, Release.TIMER)
def test_a_refusal_halts_it_until_the_next_try(world: World) -> None:
    world.brokers[TWO].bad_disk[tp("T-0")] = None
    world.delete("T")
    world.deliver()
    world.brokers[TWO].bad_disk.clear()
    world.handle(events.RetryDue())
    world.deliver()


@because(Halt.REFUSED, Halt.OFFLINE, Release.BROKER_BACK)
def test_a_refusal_halts_it_until_the_broker_restarts(world: World) -> None:
    world.brokers[TWO].bad_disk[tp("T-0")] = None
    world.delete("T")
    world.deliver()
    world.stop_broker(2)
    world.brokers[TWO].bad_disk.clear()
    world.start_broker(2)
    world.deliver()


@because(Halt.REFUSED)
def test_a_refusal_halts_it_until_there_is_another_controller(world: World) -> None:
    world.brokers[TWO].bad_disk[tp("T-0")] = None
    world.delete("T")
    world.deliver()
    world.brokers[TWO].bad_disk.clear()
    world.elect(1)  # knows nothing of the refusal, and begins anew
    world.deliver()


@because(Halt.MOVING, Release.MOVE_ENDED)
def test_a_move_halts_it_until_the_move_has_ended(world: World) -> None:
    world.ask(events.ReassignmentsAsked({tp("T-0"): (ONE, THREE)}))
    world.deliver()
    world.delete("T")
    world.change_isr("T-0", 1, 2, 3)
    world.deliver()


@because(Halt.MOVING, Release.MOVE_ENDED)
def test_a_move_found_at_a_failover_halts_it_until_the_move_has_ended(world: World) -> None:
    world.ask(events.ReassignmentsAsked({tp("T-0"): (ONE, THREE)}))
    world.deliver()
    world.store.markers["T"] = None
    world.elect(1)
    world.deliver()
    world.change_isr("T-0", 1, 2, 3)
    world.deliver()


@because(Halt.OFFLINE, Release.DISK_GOOD)
def test_a_bad_disk_halts_it_until_the_replica_is_fine_again(world: World) -> None:
    two = world.brokers[TWO]
    two.bad_disk[tp("T-0")] = None
    world.handle(events.LogDirFailed((TWO,), ()))
    # The answer to an order that was on its way when the deletion began is how it is known.
    late = world.take_mail()
    world.mail.extend((request, world.core.epoch) for request in late)
    world.deliver()
    world.delete("T")
    world.deliver()
    assert halted(world) == Halt.OFFLINE
    two.bad_disk.clear()
    two.roles.clear()
    for request in late:
        answer = two.receive(request, world.core.epoch) if request.to == 2 else None
        if answer is not None:
            world.handle(answer)
    world.deliver()


@because(Halt.OFFLINE, Release.GIVEN_UP)
def test_a_broker_that_stays_away_halts_it_until_its_copy_is_given_up(world: World) -> None:
    world.core.settings = ControllerSettings(deletion_cancellable=True)
    world.stop_broker(2)
    world.delete("T")
    world.deliver()
    world.ask(events.ReplicaGivenUp("T", TWO))
    world.deliver()
    world.start_broker(2)
    world.deliver()


@pytest.mark.parametrize("reason", [*Halt, *Release])
def test_every_reason_has_a_test(reason: Halt | Release) -> None:
    assert TOLD.get(reason), f"nobody shows {reason!r}"
