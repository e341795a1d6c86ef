"""CreateAcls, DeleteAcls and filters: what is refused, what is found, what is written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from klamm.model.errors import ErrorCode, ProtocolError
from klamm.security.authorization.acls import (
    Acl,
    Binding,
    Filter,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from klamm.security.authorization.alterations import (
    Creation,
    filter_of,
    grouped,
    plan_creations,
    plan_deletions,
)
from klamm.security.authorization.snapshot import Snapshot, snapshot_of

READ_ORDERS = Creation(
    resource_type=2,
    resource_name="orders",
    pattern_type=3,
    principal="User:alice",
    host="*",
    operation=3,
    permission=3,
)
ALLOW_READ = Acl("User:alice", "*", Operation.READ, Permission.ALLOW)
DENY_ALL = Acl("User:bob", "10.0.0.1", Operation.ALL, Permission.DENY)
ORDERS = Pattern(ResourceType.TOPIC, "orders")
PREFIX = Pattern(ResourceType.TOPIC, "ord", PatternType.PREFIXED)
STAR = Pattern(ResourceType.TOPIC, "*")
GROUP = Pattern(ResourceType.GROUP, "orders")
ALL = snapshot_of(
    Binding(p, a) for p in (ORDERS, PREFIX, STAR, GROUP) for a in (ALLOW_READ, DENY_ALL)
)


def test_creation_adds_to_what_the_pattern_has() -> None:
    held = snapshot_of([Binding(ORDERS, DENY_ALL)])
    plan = plan_creations(held, [READ_ORDERS, READ_ORDERS])
    assert plan.outcomes == (None, None)
    assert plan.change.contents == {ORDERS: {DENY_ALL, ALLOW_READ}}
    assert plan.change.differing(held) == [ORDERS]
    again = plan_creations(held.replaced(plan.change.contents), [READ_ORDERS])
    assert again.change.differing(held.replaced(plan.change.contents)) == []


@pytest.mark.parametrize(
    ("fault", "code", "text"),
    [
        ({"resource_type": 4}, 42, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"resource_name": ""}, 42, "Invalid empty resource name"),
        ({"resource_name": "a/b"}, 42, "Failed to create ACL"),
        ({"resource_name": ".."}, 42, "Failed to create ACL"),
        ({"resource_name": "a\0b"}, 42, "Failed to create ACL"),
        ({"operation": 77}, 42, "Failed to create ACL"),
        ({"resource_type": 99}, 42, "Failed to create ACL"),
        ({"host": ""}, 42, "Failed to create ACL: the host is empty"),
    ],
)
def test_faulty_creation_is_refused_and_the_others_are_done(
    fault: dict[str, object], code: int, text: str
) -> None:
    plan = plan_creations(Snapshot(), [replace(READ_ORDERS, **fault), READ_ORDERS])
    refused, done = plan.outcomes
    assert refused is not None
    assert (refused.code, refused.why[: len(text)]) == (code, text)
    assert done is None
    assert plan.change.contents == {ORDERS: {ALLOW_READ}}


@pytest.mark.parametrize(
    "fault",
    [
        {"resource_type": 1},
        {"operation": 1},
        {"permission": 1},
        {"pattern_type": 1},
        {"pattern_type": 2},
        {"principal": "alice"},
    ],
)
def test_what_only_a_filter_can_be_refuses_the_whole_request(fault: dict[str, object]) -> None:
    plan = plan_creations(Snapshot(), [READ_ORDERS, replace(READ_ORDERS, **fault)])
    assert [o.code for o in plan.outcomes if o] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert plan.change.is_empty


@pytest.mark.parametrize("field", ["resource_type", "pattern_type", "operation", "permission"])
def test_code_zero_closes_the_connection(field: str) -> None:
    with pytest.raises(ProtocolError):
        plan_creations(Snapshot(), [replace(READ_ORDERS, **{field: 0})])
    codes = {"resource_type": 1, "pattern_type": 1, "operation": 1, "permission": 1} | {field: 0}
    with pytest.raises(ProtocolError):
        filter_of(resource_name=None, principal=None, host=None, **codes)


def found(**fields: object) -> list[Pattern]:
    return list(grouped(ALL.found(Filter(**fields))))  # type: ignore[arg-type]


def test_match_finds_what_would_apply() -> None:
    assert found(type=ResourceType.TOPIC, name="orders", pattern=PatternType.MATCH) == [
        STAR,
        PREFIX,
        ORDERS,
    ]
    assert found(type=ResourceType.TOPIC, name="x", pattern=PatternType.MATCH) == [STAR]


def test_other_patterns_want_the_equal_name() -> None:
    topic = {"type": ResourceType.TOPIC}
    assert found(**topic, name="ord", pattern=PatternType.ANY) == [PREFIX]
    assert found(**topic, name="ord", pattern=PatternType.LITERAL) == []
    assert found(**topic, name="*", pattern=PatternType.LITERAL) == [STAR]
    assert found(**topic, pattern=PatternType.PREFIXED) == [PREFIX]
    assert found(name="orders", pattern=PatternType.ANY) == [ORDERS, GROUP]
    assert len(found()) == 4


def test_all_is_a_value_and_star_is_a_text_in_filters() -> None:
    def acls(**fields: object) -> set[Acl]:
        return {b.acl for b in ALL.found(Filter(**fields))}  # type: ignore[arg-type]

    assert acls(operation=Operation.ALL) == {DENY_ALL}
    assert acls(operation=Operation.READ) == {ALLOW_READ}
    assert acls(host="*") == {ALLOW_READ}
    assert acls(principal="User:*") == set()
    assert acls(permission=Permission.DENY) == {DENY_ALL}


def test_unknown_code_in_a_filter_finds_nothing() -> None:
    strange = filter_of(
        resource_type=1,
        resource_name=None,
        pattern_type=9,
        principal=None,
        host=None,
        operation=1,
        permission=1,
    )
    assert ALL.found(strange) == []


def test_deletion_reports_a_binding_under_the_first_filter() -> None:
    both = Filter(type=ResourceType.TOPIC, name="orders", pattern=PatternType.LITERAL)
    plan = plan_deletions(ALL, [Filter(name="nobody"), replace(both, principal="User:bob"), both])
    assert plan.deleted == ((), (Binding(ORDERS, DENY_ALL),), (Binding(ORDERS, ALLOW_READ),))
    # Nothing is left: whoever writes removes the node.
    assert plan.change.contents == {ORDERS: frozenset()}
