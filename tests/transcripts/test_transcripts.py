"""The worked traces, event by event: what happened and what the core decided.

The texts beside this file are rewritten with `--rewrite-transcripts` and reviewed as a diff.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from klamm.controller import events
from klamm.model.names import BrokerId
from world.cluster import World, tp
from world.transcript import Transcript

HERE = Path(__file__).parent


def start(brokers: list[int], controller: int, epoch: int = 5) -> tuple[World, Transcript]:
    world = World(brokers)
    world.store.controller_epoch = epoch - 1
    transcript = Transcript(world)
    transcript.heading(f"broker {controller} is elected, epoch {epoch}")
    world.elect(controller)
    world.deliver()
    return world, transcript


def create_one_partition() -> str:
    world, transcript = start([1, 2], 1)
    transcript.heading("T is created on brokers 1 and 2")
    world.create("T", [[1, 2]])
    world.deliver()
    return transcript.text()


def leader_dies() -> str:
    world, transcript = start([1, 2], 2)
    world.create("T", [[1, 2]])
    world.deliver()
    transcript.heading("broker 1, the leader, dies")
    world.stop_broker(1)
    world.deliver()
    return transcript.text()


def _dead_broker_deletion() -> tuple[World, Transcript]:
    world, transcript = start([1, 2], 1)
    world.create("T", [[1, 2]])
    world.deliver()
    transcript.heading("broker 2 dies")
    world.stop_broker(2)
    world.deliver()
    transcript.heading("T is to be deleted")
    world.delete("T")
    return world, transcript


def delete_with_a_dead_broker() -> str:
    world, transcript = _dead_broker_deletion()
    world.deliver()
    transcript.heading("broker 2 is back")
    world.start_broker(2)
    world.deliver()
    return transcript.text()


def controller_dies_during_a_deletion() -> str:
    world, transcript = _dead_broker_deletion()
    transcript.heading("the controller dies before anything arrives; epoch 6")
    world.elect(1)
    world.deliver()
    transcript.heading("broker 2 is back")
    world.start_broker(2)
    world.deliver()
    return transcript.text()


def controller_dies_while_all_brokers_live() -> str:
    world, transcript = start([1, 2], 1)
    world.create("T", [[1, 2]])
    world.deliver()
    transcript.heading("T is to be deleted")
    world.delete("T")
    transcript.heading("the controller dies before anything arrives; epoch 6")
    world.elect(2)
    world.deliver()
    return transcript.text()


def move_a_single_replica() -> str:
    world, transcript = start([1, 2], 1)
    world.create("T", [[1]])
    world.deliver()
    transcript.heading("T-0 is to move from 1 to 2: three epochs")
    world.ask(events.ReassignmentsAsked({tp("T-0"): (BrokerId(2),)}))
    world.deliver()
    transcript.heading("2 has caught up")
    world.change_isr("T-0", 1, 2)
    world.deliver()
    return transcript.text()


def move_to_other_brokers() -> str:
    world, transcript = start([1, 2, 3, 4, 5, 6], 1)
    world.create("T", [[1, 2, 3]])
    world.deliver()
    transcript.heading("T-0 is to move from 1, 2, 3 to 4, 5, 6")
    world.ask(events.ReassignmentsAsked({tp("T-0"): tuple(map(BrokerId, (4, 5, 6)))}))
    world.deliver()
    transcript.heading("4, 5 and 6 have caught up")
    world.change_isr("T-0", 1, 2, 3, 4, 5, 6)
    world.deliver()
    return transcript.text()


def controlled_shutdown() -> str:
    world, transcript = start([1, 2, 3], 3)
    world.create("T", [[1, 2], [2, 1], [1]])
    world.deliver()
    transcript.heading("broker 1 asks to leave, then goes")
    world.ask(events.ShutdownAsked(BrokerId(1)))
    world.deliver()
    world.stop_broker(1)
    world.deliver()
    return transcript.text()


TRACES: dict[str, Callable[[], str]] = {
    "create-one-partition": create_one_partition,
    "leader-dies": leader_dies,
    "delete-with-a-dead-broker": delete_with_a_dead_broker,
    "controller-dies-during-a-deletion": controller_dies_during_a_deletion,
    "controller-dies-while-all-brokers-live": controller_dies_while_all_brokers_live,
    "move-to-other-brokers": move_to_other_brokers,
    "move-a-single-replica": move_a_single_replica,
    "controlled-shutdown": controlled_shutdown,
}


@pytest.mark.parametrize("name", TRACES)
def test_trace(name: str, request: pytest.FixtureRequest) -> None:
    path = HERE / f"{name}.txt"
    text = TRACES[name]()
    if request.config.getoption("--rewrite-transcripts"):
        path.write_text(text)
    assert text == path.read_text()


def test_every_transcript_has_a_trace() -> None:
    assert {path.stem for path in HERE.glob("*.txt")} == set(TRACES)
