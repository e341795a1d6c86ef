"""A ledger is judged line by line: what is planted is found, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from klamm.controller import events
from klamm.controller.effects import CreateState, Outcome, Stored
from klamm.controller.states.judging import judge
from klamm.controller.states.tables import MACHINES, machine_of
from klamm.model.names import BrokerId
from world.cluster import World, tp

Told = tuple[int, str, str, str]


def entries(*told: Told, edition: int | None = 2) -> list[dict[str, Any]]:
    """A ledger of these lines, each with its term; the first of a term names the edition."""
    made: list[dict[str, Any]] = []
    terms: dict[int, int] = {}
    for epoch, subject, before, after in told:
        terms[epoch] = terms.get(epoch, 0) + 1
        entry = {"controller_epoch": epoch, "sequence": terms[epoch], "topic_id": "one"}
        made.append(entry | {"subject": subject, "before": before, "after": after})
        if terms[epoch] == 1 and edition is not None:
            made[-1]["edition"] = edition
    return made


def broken(*told: Told, edition: int | None = 2) -> list[str]:
    """Where each chain should have gone on."""
    return [expected for _, expected in judge(entries(*told, edition=edition)).broken]


def test_each_machine_knows_its_own_subjects() -> None:
    subjects = ["topic T", "T-0", "T-0 on broker 3", "broker 3", "T-0 ISR", "archive of T", "T"]
    found = [machine_of(subject) for subject in subjects]
    assert [m and m.entity for m in found] == ["topic", "partition", "replica", *[None] * 4]


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.entity)
def test_a_machine_is_found_only_in_its_own_states(machine: Any) -> None:
    assert machine.found <= set(machine.states)
    assert machine.unsaid in machine.found
    assert machine.never not in machine.found


def test_a_pair_that_no_table_has_is_illegal() -> None:
    lines: list[Told] = [
        (1, "topic T", "created", "absent"),
        (1, "T-0", "Online", "NonExistent"),
        (1, "T-0 on broker 1", "DeletionStarted", "Online"),
        (1, "T-1", "found", "NonExistent"),
        (1, "T-1 ISR", "1,2", "1"),
        (1, "T-2", "Online", "Offline"),
    ]
    verdict = judge(entries(*lines))
    assert [line.subject for line in verdict.illegal] == [
        "topic T",
        "T-0",
        "T-0 on broker 1",
        "T-1",
    ]
    assert len(verdict.faults()) == 4


def test_a_line_that_begins_elsewhere_breaks_its_chain() -> None:
    queued: Told = (1, "topic T", "created", "queued for deletion")
    assert broken(queued, (1, "topic T", "queued for deletion", "halted")) == []
    assert broken(queued, (1, "topic T", "deleting", "halted")) == ["queued for deletion"]


def test_a_new_term_begins_where_it_found_a_thing_or_says_nothing() -> None:
    offline: Told = (1, "T-0", "Online", "Offline")
    assert broken(offline, (2, "T-0", "found", "Offline"), (2, "T-0", "Offline", "Online")) == []
    assert broken(offline, (2, "T-0", "Online", "Offline")) == []
    assert broken(offline, (2, "T-0", "Offline", "Online")) == ["Online"]
    assert broken(offline, (1, "T-0", "found", "Offline")) == ["Offline"]


def test_what_is_there_is_not_born_again() -> None:
    born: Told = (1, "T-0", "NonExistent", "New")
    assert broken(born, (2, "T-0", "NonExistent", "New")) == ["New"]
    replica: Told = (1, "T-0 on broker 3", "NonExistent", "New")
    # Its term may have ended between the write that took it out and the line that tells of it.
    assert broken(replica, (2, "T-0 on broker 3", "NonExistent", "New")) == []


def test_of_the_first_edition_less_is_asked() -> None:
    lines: tuple[Told, ...] = (
        (1, "topic T", "created", "queued for deletion"),
        (1, "topic T", "deleting", "halted"),
        (1, "T-0", "Online", "Offline"),
        (2, "T-0", "Offline", "Online"),
        (2, "topic T", "created", "queued for deletion"),
        (2, "topic T", "deleting", "absent"),
    )
    assert judge(entries(*lines, edition=None)).faults() == []
    assert len(judge(entries(*lines)).faults()) == 3


def test_order_and_repetition_do_not_matter() -> None:
    lines = entries((1, "T-0", "NonExistent", "New"), (1, "T-0", "New", "Online"))
    assert judge([*reversed(lines), *lines]).faults() == []


def test_a_memory_that_is_not_what_the_ledger_says_is_found() -> None:
    world = World([1, 2])
    world.elect(1)
    world.create("T", [[1, 2]])
    partition = world.core.context.partition(tp("T-0"))
    assert partition is not None
    partition.state = type(partition.state).OFFLINE
    del partition.replica_states[BrokerId(2)]
    world.core.context.topics["T"].state = type(world.core.context.topics["T"].state).FROZEN
    assert list(world.judge.differences(world.core.context)) == [
        "topic T is frozen, and the ledger says created",
        "T-0 is Offline, and the ledger says Online",
        "T-0 on broker 2 is NonExistent, and the ledger says Online",
    ]


def test_a_lost_answer_to_a_create_leaves_no_gap() -> None:
    """The state is in the store, and the controller hears that it was there already."""
    world = World([1, 2])
    world.elect(1)
    commit = world.store.commit

    def lose_creates(writes: Any, *, epoch: int) -> list[Outcome]:
        if any(isinstance(write, CreateState) for write in writes):
            assert all(isinstance(o, Stored) for o in commit(writes, epoch=epoch))
        return commit(writes, epoch=epoch)

    world.store.commit = lose_creates  # type: ignore[method-assign]
    world.create("T", [[1, 2]])  # the world judges each line
    assert [(m.before, m.after, m.why) for m in world.transitions() if m.subject == "T-0"] == [
        ("NonExistent", "New", ""),
        ("New", "Offline", "its state was in the store already"),
        ("Offline", "Online", "offline election: 1"),
    ]


def test_the_chain_joins_over_terms() -> None:
    """What is found as it should be is not told; what is not begins with the word for it."""
    world = World([1, 2, 3])
    world.elect(3)
    world.create("T", [[1, 2]])
    world.create("U", [[1]])
    world.create("V", [[3]])
    world.handle(events.FreezeSwitched("V", True))
    world.store.topics["V"] = replace(world.store.topics["V"], frozen=True)
    world.deliver()
    world.stop_broker(2)
    world.delete("T")
    world.stop_broker(1, told=False)
    told = len(world.transitions())
    world.elect(3)
    first = {
        m.subject: (m.before, m.after)
        for m in reversed(world.transitions()[told:])
        if m.before == "found"
    }
    assert first == {
        "topic T": ("found", "queued for deletion"),
        "T-0": ("found", "Offline"),
        "T-0 on broker 1": ("found", "DeletionIneligible"),
        "T-0 on broker 2": ("found", "DeletionIneligible"),
        "U-0": ("found", "Offline"),
        "U-0 on broker 1": ("found", "DeletionIneligible"),
        "topic V": ("found", "frozen"),
    }
    assert world.judge.faults() == []
