"""Who may create, grow and delete topics: every rule, and their order."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from klamm.controller.admission import (
    CreationFacts,
    DeletionFacts,
    Doomed,
    Growth,
    GrowthFacts,
    NewTopic,
    Proposal,
    TopicCreation,
    admit_creation,
    admit_deletion,
    admit_growth,
    deletion_request_fault,
    name_faults,
)
from klamm.controller.admission.placement import Start
from klamm.model.assignment import Assignment
from klamm.model.errors import ErrorCode, Refused
from klamm.model.names import BrokerId
from klamm.model.settings import BrokerSettings

FACTS = CreationFacts(
    settings=BrokerSettings.parse({}),
    visible={"seen"},
    stored={"seen", "stored", "a.b"},
    marked={"marked"},
    brokers={BrokerId(b): None for b in (0, 1, 2)},
    start=Start.fixed(0),
)


def settings(**given: str) -> BrokerSettings:
    return BrokerSettings.parse({name.replace("_", "."): text for name, text in given.items()})


def manual(*pairs: tuple[int, tuple[int, ...]]) -> tuple[tuple[int, tuple[BrokerId, ...]], ...]:
    return tuple((n, tuple(BrokerId(b) for b in brokers)) for n, brokers in pairs)


def refusal(answer: object) -> tuple[ErrorCode, str]:
    assert isinstance(answer, Refused), answer
    return answer.code, answer.why


@pytest.mark.parametrize(
    ("ask", "code", "words"),
    [
        (NewTopic(name="seen", partitions=0), 36, "Topic 'seen' already exists."),
        (
            NewTopic(name="t", configs=(("retention.ms", None),)),
            40,
            "Null value not supported for topic configs: retention.ms",
        ),
        (
            NewTopic(name="t", partitions=1, assignment=manual((0, (0,)))),
            42,
            "Both cannot be used at the same",
        ),
        (
            NewTopic(name="t", factor=1, assignment=manual((0, (0,)))),
            42,
            "Both cannot be used at the same",
        ),
        (NewTopic(name="t", partitions=0), 37, "Number of partitions must be larger than 0."),
        (NewTopic(name="t", partitions=-2), 37, "must be larger than 0. -2"),
        (NewTopic(name="t", factor=0), 38, "Replication factor must be larger than 0."),
        (
            NewTopic(name="t", factor=4),
            38,
            "Replication factor: 4 larger than available brokers: 3.",
        ),
        (NewTopic(name=""), 17, "empty"),
        (NewTopic(name="."), 17, "'.' is not allowed"),
        (NewTopic(name=".."), 17, "'..' is not allowed"),
        (NewTopic(name="x" * 250), 17, "max allowed length 249"),
        (NewTopic(name="a b"), 17, "characters other than"),
        (NewTopic(name="ä"), 17, "characters other than"),
        (NewTopic(name="marked"), 36, "marked for deletion"),
        (NewTopic(name="stored"), 36, "Topic 'stored' already exists."),
        (NewTopic(name="a_b"), 17, "Topic 'a_b' collides with existing topics: a.b"),
        (NewTopic(name="t", assignment=manual((0, (0, 1)), (1, (0,)))), 39, "same number"),
        (NewTopic(name="t", assignment=manual((0, ()))), 39, "at least one"),
        (
            NewTopic(name="t", assignment=manual((0, (1, 1)))),
            39,
            "Duplicate replica assignment found",
        ),
        (
            NewTopic(name="t", assignment=manual((1, (1,)))),
            39,
            "consecutive 0-based integer sequence",
        ),
        (NewTopic(name="t", configs=(("retention.sm", "1"),)), 40, "did you mean retention.ms"),
        (
            NewTopic(name="t", configs=(("retention.ms", "x"),)),
            40,
            "Invalid value x for configuration retention.ms",
        ),
    ],
)
def test_a_topic_is_refused(ask: NewTopic, code: int, words: str) -> None:
    got, why = refusal(admit_creation(ask, FACTS))
    assert got == code
    assert words in why


def test_the_first_rule_that_says_no_gives_the_answer() -> None:
    """Breaks every rule at once, then mends them one by one in the order of the rules."""
    strict = replace(
        FACTS,
        settings=settings(klamm_placement_mixed_racks="refuse"),
        policy=lambda _: "the policy says no",
        brokers={BrokerId(0): "r", BrokerId(1): None},
    )
    steps: list[tuple[NewTopic, CreationFacts]] = []
    ask = NewTopic(name="seen", partitions=0, factor=9, configs=(("zzz", None),))
    steps.append((ask, strict))
    strict = replace(strict, visible=())
    steps.append((ask, strict))
    ask = replace(ask, configs=(("zzz", "1"),))
    steps.append((replace(ask, assignment=manual((0, (0,)))), strict))
    steps.append((ask, strict))
    ask = replace(ask, partitions=1)
    steps.append((ask, strict))
    ask = replace(ask, factor=1)
    steps.append((ask, strict))
    strict = replace(strict, settings=settings(klamm_placement_mixed_racks="ignore"))
    steps.append((replace(ask, name="a b"), replace(strict, marked={"a b"}, stored={"a b"})))
    steps.append((ask, replace(strict, marked={"seen"})))
    steps.append((ask, strict))
    ask = replace(ask, name="a_b", partitions=-1, factor=-1)
    steps.append((replace(ask, assignment=manual((2, (0, 0)), (1, (1,)))), strict))
    strict = replace(strict, stored=())
    steps.append((replace(ask, assignment=manual((2, (0, 0)), (1, (1,)))), strict))
    steps.append((replace(ask, assignment=manual((2, (0, 0)))), strict))
    steps.append((replace(ask, assignment=manual((2, (0,)))), strict))
    steps.append((replace(ask, assignment=manual((0, (0,)))), strict))
    ask = replace(ask, configs=())
    steps.append((ask, strict))
    refusals = [refusal(admit_creation(*step)) for step in steps]
    codes = [code.value for code, _ in refusals]
    assert codes == [36, 40, 42, 37, 38, 42, 17, 36, 36, 17, 39, 39, 39, 40, 44]
    assert "marked for deletion" in refusals[7][1]
    assert "already exists" in refusals[8][1]
    assert isinstance(admit_creation(ask, replace(strict, policy=None)), TopicCreation)


def test_counts_left_open_take_the_defaults_of_the_broker() -> None:
    facts = replace(FACTS, settings=settings(num_partitions="4", default_replication_factor="2"))
    creation = admit_creation(NewTopic(name="t", configs=(("flush.ms", "5"),)), facts)
    assert creation == TopicCreation(
        topic="t",
        placement={0: (0, 1), 1: (1, 2), 2: (2, 0), 3: (0, 2)},  # type: ignore[dict-item]
        configs={"flush.ms": "5"},
    )
    assert creation.factor == 2


def test_an_assignment_may_name_absent_brokers_and_odd_numbers_as_in_kafka() -> None:
    ask = NewTopic(name="t", assignment=manual((-1, (7,)), (0, (8,)), (3, (9,))))
    lenient = replace(FACTS, settings=settings(klamm_placement_strict_assignment="false"))
    assert isinstance(admit_creation(ask, lenient), TopicCreation)


def test_an_assignment_may_name_a_broker_that_is_away() -> None:
    ask = NewTopic(name="t", assignment=manual((0, (0, 7))))
    assert isinstance(admit_creation(ask, FACTS), Refused)
    away = replace(FACTS, absent=frozenset({BrokerId(7)}))
    assert isinstance(admit_creation(ask, away), TopicCreation)


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        (manual((-1, (0,)), (0, (0,)), (3, (0,))), "consecutive 0-based integer sequence"),
        (manual((0, (0, 7, 8))), "Unknown broker(s) in replica assignment: 7, 8."),
    ],
)
def test_a_strict_cluster_checks_numbers_and_brokers(
    assignment: tuple[tuple[int, tuple[BrokerId, ...]], ...], words: str
) -> None:
    code, why = refusal(admit_creation(NewTopic(name="t", assignment=assignment), FACTS))
    assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert words in why


def test_a_policy_sees_counts_or_the_assignment_never_both() -> None:
    seen: list[Proposal] = []

    def policy(proposal: Proposal) -> str | None:
        seen.append(proposal)
        return "no" if proposal.partitions is None else None

    facts = replace(FACTS, policy=policy)
    assert isinstance(
        admit_creation(NewTopic(name="t", partitions=2, factor=1), facts), TopicCreation
    )
    ask = NewTopic(name="u", assignment=manual((0, (2,))), configs=(("flush.ms", "1"),))
    assert refusal(admit_creation(ask, facts)) == (ErrorCode.POLICY_VIOLATION, "no")
    assert seen == [
        Proposal(topic="t", partitions=2, replication_factor=1, assignments=None, configs={}),
        Proposal(
            topic="u",
            partitions=None,
            replication_factor=None,
            assignments={0: (BrokerId(2),)},
            configs={"flush.ms": "1"},
        ),
    ]


def test_names_are_checked_before_the_topics() -> None:
    faults = name_faults(["a", "b", "a", "__cluster_metadata"])
    assert set(faults) == {"a", "__cluster_metadata"}
    assert {fault.code for fault in faults.values()} == {ErrorCode.INVALID_REQUEST}
    assert "2 times" in faults["a"].why


def assigned(*brokers: int, adding: tuple[int, ...] = ()) -> Assignment:
    return Assignment(
        tuple(BrokerId(b) for b in brokers), adding=tuple(BrokerId(b) for b in adding)
    )


GROWTH = GrowthFacts(
    settings=BrokerSettings.parse({}),
    marked=False,
    partitions={0: assigned(1, 2)},
    brokers={BrokerId(b): None for b in (0, 1, 2, 3)},
)


def chosen(*replicas: tuple[int, ...]) -> tuple[tuple[BrokerId, ...], ...]:
    return tuple(tuple(BrokerId(b) for b in brokers) for brokers in replicas)


@pytest.mark.parametrize(
    ("ask", "facts", "code", "words"),
    [
        (Growth("t", 2), replace(GROWTH, marked=True), 17, "queued for deletion"),
        (
            Growth("t", 2),
            replace(GROWTH, partitions={0: assigned(1, 2, adding=(2,))}),
            60,
            "being moved: 0",
        ),
        (Growth("t", 2), replace(GROWTH, partitions={}), 3, "The topic 't' does not exist."),
        (Growth("t", 0), GROWTH, 37, "higher than the requested 0."),
        (Growth("t", 1), GROWTH, 37, "already has 1 partitions"),
        (
            Growth("t", 3, chosen((8, 9))),
            GROWTH,
            39,
            "Unknown broker(s) in replica assignment: 8, 9.",
        ),
        (Growth("t", 3, chosen((0, 1))), GROWTH, 39, "by 2 but 1 assignments provided."),
        (Growth("t", 3, ()), GROWTH, 39, "by 2 but 0 assignments provided."),
        (
            Growth("t", 3),
            replace(GROWTH, partitions={7: assigned(1)}),
            -1,
            "partition id 0 is missing",
        ),
        (
            Growth("t", 2, chosen((0, 1))),
            replace(GROWTH, partitions={7: assigned(1)}),
            -1,
            "partition id 0 is missing",
        ),
        (
            Growth("t", 2, chosen(())),
            GROWTH,
            39,
            "Cannot have replication factor of 0 for partition id 1.",
        ),
        (
            Growth("t", 2, chosen((1, 1))),
            GROWTH,
            39,
            "in replica assignment: 1, 1 for partition id 1.",
        ),
        (
            Growth("t", 2, chosen((1,))),
            GROWTH,
            39,
            "while partitions [1] have replication factors [1]",
        ),
        (
            Growth("t", 2),
            replace(GROWTH, brokers={BrokerId(0): None}),
            38,
            "larger than available brokers: 1.",
        ),
        (
            Growth("t", 2),
            replace(
                GROWTH,
                compacted=True,
                settings=settings(klamm_expansion_of_compacted_topics="false"),
            ),
            37,
            "compacted",
        ),
        (
            Growth("t", 2),
            replace(GROWTH, brokers={BrokerId(0): "r", BrokerId(1): None}),
            -1,
            "have a rack",
        ),
    ],
)
def test_growth_is_refused(ask: Growth, facts: GrowthFacts, code: int, words: str) -> None:
    got, why = refusal(admit_growth(ask, facts))
    assert got == code
    assert words in why


def test_a_topic_grows_as_asked_or_by_the_algorithm() -> None:
    assert admit_growth(Growth("t", 3), GROWTH) == {1: (2, 0), 2: (3, 1)}
    assert admit_growth(Growth("t", 2, chosen((3, 0))), GROWTH) == {1: (3, 0)}
    assert admit_growth(Growth("t", 2), replace(GROWTH, compacted=True)) == {1: (2, 0)}


def test_even_growth_is_a_choice() -> None:
    led_by_zero = {n: assigned(0) for n in range(3)}
    even = settings(klamm_expansion_placement="even")
    facts = replace(GROWTH, partitions=led_by_zero, settings=even)
    grown = admit_growth(Growth("t", 6), facts)
    assert not isinstance(grown, Refused)
    assert [replicas[0] for replicas in grown.values()] == [1, 2, 3]


ID = uuid.UUID(int=77)
DELETION = DeletionFacts(
    settings=BrokerSettings.parse({}), version=6, names={ID: "named"}, visible={"named", "t"}
)


@pytest.mark.parametrize(("version", "code"), [(6, 73), (3, 73), (2, 42)])
def test_deletion_can_be_switched_off(version: int, code: int) -> None:
    off = replace(DELETION, version=version, settings=settings(delete_topic_enable="false"))
    got, why = refusal(deletion_request_fault([Doomed("t")], off))
    assert got == code
    assert "delete.topic.enable" in why


def test_a_topic_is_named_or_identified_never_both() -> None:
    got, _ = refusal(deletion_request_fault([Doomed("t"), Doomed("t", ID)], DELETION))
    assert got is ErrorCode.INVALID_REQUEST
    assert deletion_request_fault([Doomed("t"), Doomed(None, ID)], DELETION) is None


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (Doomed(None, uuid.UUID(int=78)), ErrorCode.UNKNOWN_TOPIC_ID),
        (Doomed(None), ErrorCode.UNKNOWN_TOPIC_ID),
        (Doomed("gone"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_deletion_is_refused(ask: Doomed, code: ErrorCode) -> None:
    assert refusal(admit_deletion(ask, DELETION))[0] is code


def test_a_deletion_policy_is_asked() -> None:
    guarded = replace(DELETION, policy=lambda topic: f"{topic} stays" if topic == "t" else None)
    assert refusal(admit_deletion(Doomed("t"), guarded)) == (
        ErrorCode.POLICY_VIOLATION,
        "t stays",
    )
    assert admit_deletion(Doomed(None, ID), guarded) == "named"
