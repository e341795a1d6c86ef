"""The decision: who may do what, by lists, super users and the rule for resources without any."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import klamm.security.authorization.authorizer as module
from klamm.security.authorization.acls import (
    UNREADABLE,
    Acl,
    Binding,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from klamm.security.authorization.authorizer import OPEN, Asked, Authorizer, Question
from klamm.security.authorization.hosts import host_text
from klamm.security.authorization.rights import Right
from klamm.security.authorization.snapshot import Snapshot, snapshot_of
from klamm.security.principals import ANONYMOUS, Principal

ALICE = Principal("User", "alice")
BOB = Principal("User", "bob")
HERE = "10.0.0.1"
READ = Right(Operation.READ, ResourceType.TOPIC)
WRITE = Right(Operation.WRITE, ResourceType.TOPIC)
DESCRIBE = Right(Operation.DESCRIBE, ResourceType.TOPIC)
DESCRIBE_CONFIGS = Right(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC)


def entry(
    text: str, who: str = "User:alice", name: str = "orders", host: str = "*", prefix: bool = False
) -> Binding:
    """`allow READ` or `deny ALL`, on a topic."""
    permission, operation = text.split()
    kind = PatternType.PREFIXED if prefix else PatternType.LITERAL
    acl = Acl(who, host, Operation[operation], Permission[permission.upper()])
    return Binding(Pattern(ResourceType.TOPIC, name, kind), acl)


def authorizer(*bindings: Binding, everyone: bool = False) -> Authorizer:
    return Authorizer(allow_everyone=everyone, snapshot=snapshot_of(bindings))


def may(
    rules: Authorizer, right: Right, name: str = "orders", who: Principal = ALICE, at: str = HERE
) -> bool:
    return rules.caller(who, at).allows(right, name)


def test_nothing_is_allowed_without_an_entry() -> None:
    assert not may(authorizer(), READ)


def test_literal_wildcard_and_prefix_each_allow() -> None:
    assert may(authorizer(entry("allow READ")), READ)
    assert may(authorizer(entry("allow READ", name="*")), READ)
    assert may(authorizer(entry("allow READ", name="ord", prefix=True)), READ)
    assert may(authorizer(entry("allow READ", prefix=True)), READ)
    assert not may(authorizer(entry("allow READ", name="ordersx", prefix=True)), READ)
    assert not may(authorizer(entry("allow READ", name="ord")), READ)


def test_denial_beats_permission_wherever_either_stands() -> None:
    rules = authorizer(entry("allow READ", name="ord", prefix=True), entry("deny READ"))
    assert not may(rules, READ)
    assert may(rules, READ, "ordinary")
    rules = authorizer(entry("allow READ"), entry("deny ALL", name="*", who="User:*"))
    assert not may(rules, READ)


def test_super_user_is_not_bound_by_a_denial() -> None:
    rules = Authorizer(
        super_users=frozenset({ALICE}), snapshot=snapshot_of([entry("deny ALL", who="User:*")])
    )
    assert may(rules, READ)
    assert not may(rules, READ, who=BOB)
    assert rules.caller(ALICE, HERE).allows_some(WRITE)
    # The type is part of the name, and letters count.
    assert not may(rules, READ, who=Principal("Group", "alice"))
    assert not may(rules, READ, who=Principal("user", "alice"))


@pytest.mark.parametrize("operation", ["READ", "WRITE", "DELETE", "ALTER"])
def test_permission_implies_describe(operation: str) -> None:
    rules = authorizer(entry(f"allow {operation}"))
    assert may(rules, DESCRIBE)
    assert not may(rules, DESCRIBE_CONFIGS)


def test_alter_configs_implies_describe_configs_only() -> None:
    rules = authorizer(entry("allow ALTER_CONFIGS"))
    assert may(rules, DESCRIBE_CONFIGS)
    assert not may(rules, DESCRIBE)


def test_denial_implies_nothing() -> None:
    rules = authorizer(entry("allow ALL"), entry("deny READ"))
    assert not may(rules, READ)
    assert may(rules, DESCRIBE)
    rules = authorizer(entry("allow READ"), entry("deny DESCRIBE"))
    assert may(rules, READ)
    assert not may(rules, DESCRIBE)
    rules = authorizer(entry("allow ALL"), entry("deny ALL"))
    assert not any(may(rules, right) for right in (READ, WRITE, DESCRIBE, DESCRIBE_CONFIGS))


def test_resources_without_entries_are_open_where_settings_say_so() -> None:
    rules = authorizer(entry("allow READ", who="User:bob"), everyone=True)
    assert may(rules, WRITE, "other")
    # One entry for one user closes a topic to everybody else.
    assert not may(rules, READ)
    assert may(rules, READ, who=BOB)
    assert may(rules, READ, who=ANONYMOUS, name="other")


def test_everybody_is_every_type_and_the_anonymous() -> None:
    rules = authorizer(entry("allow READ", who="User:*"))
    assert may(rules, READ, who=ANONYMOUS)
    assert may(rules, READ, who=Principal("Group", "ops"))


def test_host_is_compared_as_text() -> None:
    rules = authorizer(entry("allow READ", host="0:0:0:0:0:0:0:1"))
    assert may(rules, READ, at=host_text("::1"))
    assert not may(authorizer(entry("allow READ", host="::1")), READ, at=host_text("::1"))
    assert not may(rules, READ, at=HERE)
    denied = authorizer(entry("allow READ"), entry("deny READ", host=HERE))
    assert not may(denied, READ)
    assert may(denied, READ, at="10.0.0.2")


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("2001:db8::1", "2001:db8:0:0:0:0:0:1"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1"),
        ("somewhere", "somewhere"),
    ],
)
def test_addresses_are_spelt_as_in_java(address: str, text: str) -> None:
    assert host_text(address) == text


def test_some_topic_is_enough_for_an_idempotent_producer() -> None:
    def some(*bindings: Binding, everyone: bool = False) -> bool:
        return authorizer(*bindings, everyone=everyone).caller(ALICE, HERE).allows_some(WRITE)

    assert not some()
    assert some(everyone=True)
    assert some(entry("allow WRITE", name="pay", prefix=True))
    assert some(entry("allow WRITE"))
    assert some(entry("allow ALL", who="User:*", name="*"))
    # Nothing is implied, and other operations do not count.
    assert not some(entry("allow READ"))
    assert not authorizer(entry("allow WRITE")).caller(ALICE, HERE).allows_some(DESCRIBE)
    # A denial of all topics ends it, also where everybody may without lists.
    assert not some(entry("allow WRITE"), entry("deny WRITE", name="*"))
    assert not some(entry("deny WRITE", name="*"), everyone=True)
    # What is denied on the same name or on a wider prefix does not count; a longer prefix does.
    assert not some(entry("allow WRITE"), entry("deny WRITE"))
    assert not some(entry("allow WRITE"), entry("deny ALL", name="or", prefix=True))
    assert not some(
        entry("allow WRITE", name="ord", prefix=True), entry("deny WRITE", name="ord", prefix=True)
    )
    assert some(
        entry("allow WRITE", name="ord", prefix=True), entry("deny WRITE", name="orde", prefix=True)
    )
    # Other people's entries, and entries for other hosts, do not count either.
    assert not some(entry("allow WRITE", who="User:bob"))
    assert not some(entry("allow WRITE", host="10.9.9.9"))
    assert some(entry("allow WRITE"), entry("deny WRITE", who="User:bob"))


def test_bit_fields_have_what_the_caller_may() -> None:
    rules = authorizer(entry("allow READ"))
    assert rules.caller(ALICE, HERE).operations(ResourceType.TOPIC, "orders") == 1 << 3 | 1 << 8
    assert rules.caller(BOB, HERE).operations(ResourceType.TOPIC, "orders") == 0
    assert OPEN.operations(ResourceType.TOPIC, "orders") == 3576
    assert OPEN.operations(ResourceType.GROUP, "g") == 328
    assert OPEN.operations(ResourceType.CLUSTER, "kafka-cluster") == 8096
    boss = Authorizer(super_users=frozenset({ALICE})).caller(ALICE, HERE)
    assert boss.operations(ResourceType.CLUSTER, "kafka-cluster") == 8096


def test_change_of_lists_holds_for_a_caller_that_asked_before() -> None:
    rules = authorizer(entry("allow READ"))
    caller, other = rules.caller(ALICE, HERE), rules.caller(ALICE, HERE)
    assert caller.allows(READ, "orders")
    assert other.allows(READ, "orders")
    rules.replace(rules.snapshot.replaced({Pattern(ResourceType.TOPIC, "orders"): ()}))
    assert not caller.allows(READ, "orders")
    assert not other.allows(READ, "orders")
    rules.replace(snapshot_of([entry("allow READ")]))
    assert caller.allows(READ, "orders")


def test_names_from_strangers_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REMEMBERED_MAX", 10)
    rules = authorizer(entry("allow READ"))
    caller = rules.caller(ALICE, HERE)
    for number in range(95):
        assert not caller.allows(READ, f"t{number}")
    caller.allows(READ, "x" * 10_000)
    held = sum(len(names) for memory in rules._memories.values() for names in memory.by_type)
    assert 0 < held <= 10
    assert caller.allows(READ, "orders")


def test_caller_that_left_is_not_remembered() -> None:
    rules = authorizer()
    rules.caller(ALICE, HERE).allows(READ, "orders")
    assert len(rules._memories) == 0


def test_list_that_cannot_be_read_locks_its_resource() -> None:
    snapshot = snapshot_of([entry("allow ALL", name="*", who="User:*")])
    pattern = Pattern(ResourceType.TOPIC, "orders")
    rules = Authorizer(snapshot=snapshot.replaced({pattern: UNREADABLE}))
    assert not may(rules, READ)
    assert may(rules, READ, "other")


def test_verdict_names_what_it_rests_on() -> None:
    rules = authorizer(entry("allow ALL"), entry("deny READ", name="ord", prefix=True))
    told = rules.verdict(ALICE, HERE, READ, "orders")
    assert not told.allowed
    assert told.binding == entry("deny READ", name="ord", prefix=True)
    assert rules.verdict(ALICE, HERE, DESCRIBE, "orders").binding == entry("allow ALL")
    assert "none allows" in rules.verdict(BOB, HERE, READ, "orders").why
    assert "is false" in rules.verdict(BOB, HERE, READ, "zoo").why


def test_foreign_authorizer_is_asked_and_only_true_is_a_yes() -> None:
    asked: list[Question] = []

    def decide(question: Question) -> bool:
        asked.append(question)
        return question.name == "orders"

    caller = Asked(decide, ALICE, HERE)
    assert caller.allows(READ, "orders")
    assert not caller.allows(READ, "other")
    assert not caller.allows_some(WRITE)
    assert asked[2].name is None
    assert caller.operations(ResourceType.GROUP, "orders") == 328
    lazy = Asked(lambda question: "yes", ALICE, HERE)  # type: ignore[arg-type,return-value]
    assert not lazy.allows(READ, "orders")


# The decision once more, as the five rules are written, without index or bits.


def by_the_book(
    bindings: list[Binding], op: Operation, who: str, at: str, name: str
) -> bool | None:
    implied = {
        Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
        Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
    }
    on_it = [b for b in bindings if b.pattern.covers(name)]
    if not on_it:
        return None
    mine = [b.acl for b in on_it if b.acl.principal in (who, "User:*") and b.acl.host in (at, "*")]
    exact = {op, Operation.ALL}
    if any(a.permission is Permission.DENY and a.operation in exact for a in mine):
        return False
    wide = exact | implied.get(op, set())
    return any(a.permission is Permission.ALLOW and a.operation in wide for a in mine)


names = st.text("ab*", min_size=1, max_size=3)
entries = st.builds(
    Binding,
    st.builds(
        Pattern,
        st.just(ResourceType.TOPIC),
        names,
        st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    ),
    st.builds(
        Acl,
        st.sampled_from(["User:alice", "User:bob", "User:*"]),
        st.sampled_from([HERE, "*", "10.0.0.2"]),
        st.sampled_from([o for o in Operation if o >= Operation.ALL]),
        st.sampled_from([Permission.ALLOW, Permission.DENY]),
    ),
)


@given(st.lists(entries, max_size=8), names, st.sampled_from([o for o in Operation if o > 2]))
def test_index_decides_as_the_rules_are_written(
    bindings: list[Binding], name: str, operation: Operation
) -> None:
    told = by_the_book(bindings, operation, "User:alice", HERE, name)
    for everyone in (False, True):
        rules = Authorizer(allow_everyone=everyone, snapshot=snapshot_of(bindings))
        right = Right(operation, ResourceType.TOPIC)
        wanted = everyone if told is None else told
        assert may(rules, right, name) is wanted
        assert rules.verdict(ALICE, HERE, right, name).allowed is wanted


@given(st.lists(entries, max_size=8), st.lists(entries, max_size=4))
def test_replacing_step_by_step_is_building_at_once(
    first: list[Binding], later: list[Binding]
) -> None:
    stepped = snapshot_of(first)
    before = sorted(stepped.patterns()), [stepped.acls(p) for p in sorted(stepped.patterns())]
    grown: Snapshot = stepped
    for one in later:
        grown = grown.replaced({one.pattern: grown.acls(one.pattern) | {one.acl}})
    at_once = snapshot_of([*first, *later])
    assert {p: grown.acls(p) for p in grown.patterns()} == {
        p: at_once.acls(p) for p in at_once.patterns()
    }
    # The first snapshot is what it was.
    assert before == (
        sorted(stepped.patterns()),
        [stepped.acls(p) for p in sorted(stepped.patterns())],
    )
    emptied = grown.replaced(dict.fromkeys(grown.patterns(), ()))
    assert list(emptied.patterns()) == []
