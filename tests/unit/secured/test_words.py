from __future__ import annotations

import pytest

from klamm.model.errors import UsageError
from klamm.secured import words
from klamm.security.authorization.acls import (
    Acl,
    Binding,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)

TOPIC = Pattern(ResourceType.TOPIC, "orders")


def test_a_consumer_needs_its_topic_and_its_group() -> None:
    found = words.bindings_of("alice", "consume", ["topic:orders", "group:billing"])
    group = Pattern(ResourceType.GROUP, "billing")
    assert found == [
        Binding(TOPIC, Acl("User:alice", "*", Operation.READ, Permission.ALLOW)),
        Binding(TOPIC, Acl("User:alice", "*", Operation.DESCRIBE, Permission.ALLOW)),
        Binding(group, Acl("User:alice", "*", Operation.READ, Permission.ALLOW)),
    ]


def test_words_and_what_they_mean() -> None:
    (found,) = words.bindings_of(
        "Group:staff", "Describe_Configs", ["topic:a:b"], deny=True, prefixed=True, host="10.0.0.1"
    )
    assert found.pattern == Pattern(ResourceType.TOPIC, "a:b", PatternType.PREFIXED)
    assert found.acl == Acl("Group:staff", "10.0.0.1", Operation.DESCRIBE_CONFIGS, Permission.DENY)
    assert words.principal_of("*") == "User:*"
    assert words.resource_of("cluster") == Pattern(ResourceType.CLUSTER, "kafka-cluster")
    assert words.resource_of("user:User:bob").name == "User:bob"
    assert words.operations_of("read, write,read", ResourceType.TOPIC) == (
        Operation.READ,
        Operation.WRITE,
    )
    assert words.json_of(found) == {
        "resource": "topic:a:b",
        "pattern": "prefixed",
        "principal": "Group:staff",
        "permission": "deny",
        "operation": "describe-configs",
        "host": "10.0.0.1",
    }


@pytest.mark.parametrize(
    ("principal", "operations", "resource", "says"),
    [
        ("", "read", "topic:t", "a principal is written"),
        ("User:", "read", "topic:t", "a principal is written"),
        ("alice", "read", "orders", "a resource is written topic:orders"),
        ("alice", "read", "topic:", "a resource is written topic:orders"),
        ("alice", "reed", "topic:t", "no operation 'reed', only all, read"),
        ("alice", "", "topic:t", "name an operation"),
        ("alice", "cluster-action", "topic:t", "nobody can cluster-action a topic"),
        ("alice", "consume", "cluster", "consume is about topic and group, not cluster"),
    ],
)
def test_what_makes_no_sense(principal: str, operations: str, resource: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        words.bindings_of(principal, operations, [resource])


def test_entries_that_nobody_asks_for_are_told() -> None:
    odd = Binding(TOPIC, Acl("User:a", "*", Operation.CLUSTER_ACTION, Permission.ALLOW))
    assert words.doubts([odd]) == [
        "cluster-action on topic:orders has no effect: nobody asks for it"
    ]
    assert words.doubts(words.bindings_of("a", "all", ["topic:t", "cluster"])) == []
