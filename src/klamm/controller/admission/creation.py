"""Whether a topic may be created, and what that would write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from klamm.controller.admission.node_size import partitions_fault, placement_fault
from klamm.controller.admission.placement import MixedRacks, Placement, Racks, Start, place
from klamm.controller.admission.refusals import (
    bad_assignment,
    exists,
    listed,
    with_duplicates,
)
from klamm.model.errors import ErrorCode, Refused
from klamm.model.names import CLUSTER_METADATA, BrokerId, colliding, name_fault
from klamm.model.settings import BrokerSettings, topic_faults

_UNSET: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic somebody wants: with counts, or with an assignment of its own."""

    name: str
    partitions: int = _UNSET
    factor: int = _UNSET
    assignment: tuple[tuple[int, tuple[BrokerId, ...]], ...] = ()
    configs: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The facts a policy may look at: the counts or the assignment, as the request gave them."""

    topic: str
    partitions: int | None
    replication_factor: int | None
    assignments: Mapping[int, tuple[BrokerId, ...]] | None
    configs: Mapping[str, str]


Policy = Callable[[Proposal], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreationFacts:
    """All that the admission of a new topic may look at."""

    settings: BrokerSettings
    visible: Collection[str]  # in this broker's metadata
    stored: Collection[str]  # in the store
    marked: Collection[str]  # waiting to be deleted
    brokers: Racks  # alive
    start: Start
    absent: Collection[BrokerId] = ()  # not alive, but some topic has a replica there
    policy: Policy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreation:
    """A topic as it will be written."""

    topic: str
    placement: Placement
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def factor(self) -> int:
        return len(next(iter(self.placement.values())))


def duplicates(names: Sequence[str], words: str) -> dict[str, Refused]:
    """The names that a request has more than once: which of the wishes was meant?

    `words` are Kafka's own, which differ with the request.
    """
    return {
        name: Refused(f"{words} {name} is in the request {count} times.", ErrorCode.INVALID_REQUEST)
        for name, count in Counter(names).items()
        if count > 1
    }


def name_faults(names: Sequence[str]) -> dict[str, Refused]:
    """The names that cannot be created, before anything else is looked at."""
    faults = duplicates(names, "Found multiple entries for this topic.")
    if CLUSTER_METADATA in names:
        faults[CLUSTER_METADATA] = Refused(
            f"Creation of internal topic {CLUSTER_METADATA} is prohibited.",
            ErrorCode.INVALID_REQUEST,
        )
    return faults


def admit_creation(ask: NewTopic, facts: CreationFacts) -> TopicCreation | Refused:
    """The writes that create the topic, or the first reason not to."""
    refused = _first_refusal(_BEFORE_PLACEMENT, ask, facts)
    if refused is not None:
        return refused
    placement = _placement(ask, facts)
    if isinstance(placement, Refused):
        return placement
    configs = {name: value or "" for name, value in ask.configs}
    creation = TopicCreation(topic=ask.name, placement=placement, configs=configs)
    return _first_creation_refusal(ask, creation, facts) or creation


def _first_refusal(
    rules: Iterable[Callable[[NewTopic, CreationFacts], Refused | None]],
    ask: NewTopic,
    facts: CreationFacts,
) -> Refused | None:
    return next((no for rule in rules if (no := rule(ask, facts)) is not None), None)


def _not_visible(ask: NewTopic, facts: CreationFacts) -> Refused | None:
    return exists(ask.name) if ask.name in facts.visible else None


def _no_null_config(ask: NewTopic, facts: CreationFacts) -> Refused | None:
    null = [name for name, value in ask.configs if value is None]
    if not null:
        return None
    return Refused(
        f"Null value not supported for topic configs: {','.join(null)}", ErrorCode.INVALID_CONFIG
    )


def _counts_or_assignment(ask: NewTopic, facts: CreationFacts) -> Refused | None:
    if not ask.assignment or (ask.partitions == _UNSET and ask.factor == _UNSET):
        return None
    return Refused(
        "Both numPartitions or replicationFactor and replicasAssignments were set. "
        "Both cannot be used at the same time.",
        ErrorCode.INVALID_REQUEST,
    )


_BEFORE_PLACEMENT: Final = (_not_visible, _no_null_config, _counts_or_assignment)


def _placement(ask: NewTopic, facts: CreationFacts) -> Placement | Refused:
    if ask.assignment:
        chosen = dict(ask.assignment)
        return placement_fault(ask.name, chosen) or chosen
    settings = facts.settings
    count = settings.int("num.partitions") if ask.partitions == _UNSET else ask.partitions
    factor = settings.int("default.replication.factor") if ask.factor == _UNSET else ask.factor
    mixed = MixedRacks(settings.str("klamm.placement.mixed.racks"))
    too_many = partitions_fault(ask.name, facts.brokers, count=count, factor=factor)
    return too_many or place(
        facts.brokers, count=count, factor=factor, start=facts.start, mixed=mixed
    )


def _legal_name(creation: TopicCreation, facts: CreationFacts) -> Refused | None:
    fault = name_fault(creation.topic)
    return None if fault is None else Refused(fault, ErrorCode.INVALID_TOPIC_EXCEPTION)


def _not_marked(creation: TopicCreation, facts: CreationFacts) -> Refused | None:
    if creation.topic not in facts.marked:
        return None
    return Refused(
        f"Topic '{creation.topic}' is marked for deletion. It is not gone yet: "
        f"`klamm topics explain {creation.topic}` says what it waits for.",
        ErrorCode.TOPIC_ALREADY_EXISTS,
    )


def _not_stored(creation: TopicCreation, facts: CreationFacts) -> Refused | None:
    return exists(creation.topic) if creation.topic in facts.stored else None


def _not_colliding(creation: TopicCreation, facts: CreationFacts) -> Refused | None:
    others = colliding(creation.topic, facts.stored)
    if not others:
        return None
    return Refused(
        f"Topic '{creation.topic}' collides with existing topics: {', '.join(others)}. "
        "'.' and '_' are the same in metric names.",
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    )


def _equal_factors(creation: TopicCreation, facts: CreationFacts) -> Refused | None:
    sizes = {len(replicas) for replicas in creation.placement.values()}
    if len(sizes) == 1 and 0 not in sizes:
        return None
    return bad_assignment("All partitions should have the same number of replicas, at least one.")


def _no_replica_twice(creation: TopicCreation, facts: CreationFacts) -> Refused | None:
    twice = with_duplicates(creation.placement)
    return bad_assignment(f"Duplicate replica assignment found: {twice}.") if twice else None


def _numbered_from_zero(creation: TopicCreation, facts: CreationFacts) -> Refused | None:
    numbers = sorted(creation.placement)
    if facts.settings.bool("klamm.placement.strict.assignment"):
        good = numbers == list(range(len(numbers)))
    else:
        # Kafka's check, which {-1, 0, 3} passes: only the sum of the numbers is compared.
        good = sum(n for n in numbers if n >= 0) == len(numbers) * (len(numbers) - 1) // 2
    if good:
        return None
    return bad_assignment("partitions should be a consecutive 0-based integer sequence")


def _known_brokers(creation: TopicCreation, facts: CreationFacts) -> Refused | None:
    if not facts.settings.bool("klamm.placement.strict.assignment"):
        return None
    named = {broker for replicas in creation.placement.values() for broker in replicas}
    strange = named.difference(facts.brokers, facts.absent)
    if not strange:
        return None
    return bad_assignment(
        f"Unknown broker(s) in replica assignment: {listed(sorted(strange))}. Name brokers that "
        "the cluster has, or set klamm.placement.strict.assignment=false to name any."
    )


def _good_configs(creation: TopicCreation, facts: CreationFacts) -> Refused | None:
    fault = topic_faults(creation.configs, facts.settings)
    return None if fault is None else Refused(fault, ErrorCode.INVALID_CONFIG)


_AFTER_PLACEMENT: Final = (
    _legal_name,
    _not_marked,
    _not_stored,
    _not_colliding,
    _equal_factors,
    _no_replica_twice,
    _numbered_from_zero,
    _known_brokers,
    _good_configs,
)


def _first_creation_refusal(
    ask: NewTopic, creation: TopicCreation, facts: CreationFacts
) -> Refused | None:
    for rule in _AFTER_PLACEMENT:
        refused = rule(creation, facts)
        if refused is not None:
            return refused
    return _policy_refusal(ask, creation, facts.policy)


def _policy_refusal(
    ask: NewTopic, creation: TopicCreation, policy: Policy | None
) -> Refused | None:
    if policy is None:
        return None
    manual = bool(ask.assignment)
    proposal = Proposal(
        topic=creation.topic,
        partitions=None if manual else len(creation.placement),
        replication_factor=None if manual else creation.factor,
        assignments=creation.placement if manual else None,
        configs=creation.configs,
    )
    why = policy(proposal)
    return None if why is None else Refused(why, ErrorCode.POLICY_VIOLATION)
