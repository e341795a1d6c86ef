"""Access control lists over the wire: made on one broker, found on the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from interop.wire import Wire
from klamm import Cluster
from klamm.client.errors import ConnectionLost
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import create_acls, delete_acls, describe_acls

TOPIC, GROUP, CLUSTER, ANY, MATCH = 2, 3, 4, 1, 2
LITERAL, PREFIXED, READ, WRITE, ALLOW, DENY = 3, 4, 3, 4, 3, 2


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:root;User:ANONYMOUS",
    }
    with Cluster(2, settings=settings) as cluster:
        yield Wire(cluster)


@pytest.fixture(autouse=True)
def clean(wire: Wire) -> Iterator[None]:
    yield
    delete(wire, entry_filter(ANY, None, ANY))
    assert describe(wire, entry_filter(ANY, None, ANY), broker=0) == []


def entry(
    kind: int = TOPIC,
    name: str = "orders",
    pattern: int = LITERAL,
    who: str = "User:alice",
    host: str = "*",
    operation: int = READ,
    says: int = ALLOW,
) -> create_acls.AclCreation:
    return create_acls.AclCreation(kind, name, pattern, who, host, operation, says)


def entry_filter(
    kind: int = TOPIC, name: str | None = "orders", pattern: int = LITERAL, who: str | None = None
) -> delete_acls.DeleteAclsFilter:
    return delete_acls.DeleteAclsFilter(kind, name, pattern, who, None, 1, 1)


def create(wire: Wire, *entries: create_acls.AclCreation, broker: int = 0) -> list[tuple[int, Any]]:
    request = create_acls.Request(list(entries))
    answer = wire.ask(ApiKey.CREATE_ACLS, 3, request, broker=broker)
    return [(result.error_code, result.error_message) for result in answer.results]


def delete(wire: Wire, *filters: delete_acls.DeleteAclsFilter, broker: int = 0) -> list[list[str]]:
    answer = wire.ask(ApiKey.DELETE_ACLS, 3, delete_acls.Request(list(filters)), broker=broker)
    assert all(result.error_code == 0 for result in answer.filter_results)
    return [[acl.principal for acl in result.matching_acls] for result in answer.filter_results]


def describe(
    wire: Wire, wanted: delete_acls.DeleteAclsFilter, *, broker: int = 1, version: int = 3
) -> list[tuple[Any, ...]]:
    request = describe_acls.Request(
        wanted.resource_type_filter,
        wanted.resource_name_filter,
        wanted.pattern_type_filter,
        wanted.principal_filter,
        None,
        1,
        1,
    )
    answer = wire.ask(ApiKey.DESCRIBE_ACLS, version, request, broker=broker)
    assert answer.error_code == 0
    return [
        (r.resource_type, r.resource_name, r.pattern_type, [a.principal for a in r.acls])
        for r in answer.resources
    ]


def test_what_one_broker_made_the_other_shows_at_once(wire: Wire) -> None:
    made = [entry(), entry(who="User:bob"), entry(GROUP, "team-", PREFIXED), entry()]
    assert create(wire, *made) == [(0, None)] * 4
    assert describe(wire, entry_filter()) == [
        (TOPIC, "orders", LITERAL, ["User:alice", "User:bob"])
    ]
    assert describe(wire, entry_filter(ANY, None, ANY)) == [
        (TOPIC, "orders", LITERAL, ["User:alice", "User:bob"]),
        (GROUP, "team-", PREFIXED, ["User:alice"]),
    ]
    assert delete(wire, entry_filter(who="User:bob"), broker=1) == [["User:bob"]]
    assert describe(wire, entry_filter(), broker=0) == [(TOPIC, "orders", LITERAL, ["User:alice"])]


def test_a_match_finds_what_would_apply(wire: Wire) -> None:
    create(wire, entry(), entry(name="*"), entry(name="ord", pattern=PREFIXED), entry(name="other"))
    found = describe(wire, entry_filter(pattern=MATCH))
    assert [(name, pattern) for _, name, pattern, _ in found] == [
        ("*", LITERAL),
        ("ord", PREFIXED),
        ("orders", LITERAL),
    ]
    assert describe(wire, entry_filter(name="*")) == [(TOPIC, "*", LITERAL, ["User:alice"])]


def test_version_0_knows_literal_names_only(wire: Wire) -> None:
    request = create_acls.Request([entry()])
    assert wire.ask(ApiKey.CREATE_ACLS, 0, request).results[0].error_code == 0
    create(wire, entry(name="ord", pattern=PREFIXED))
    found = describe(wire, entry_filter(name=None), version=0)
    assert [name for _, name, _, _ in found] == ["orders"]


def test_one_of_two_filters_reports_what_both_find(wire: Wire) -> None:
    create(wire, entry(), entry(who="User:bob"))
    assert delete(wire, entry_filter(who="User:bob"), entry_filter(), entry_filter()) == [
        ["User:bob"],
        ["User:alice"],
        [],
    ]


@pytest.mark.parametrize(
    ("bad", "code", "told"),
    [
        (entry(CLUSTER, "mine"), 42, "The only valid name for the CLUSTER resource is kafka-cl"),
        (entry(name=""), 42, "Invalid empty resource name"),
        (entry(name="a/b"), 42, "Failed to create ACL"),
        (entry(operation=99), 42, "Failed to create ACL"),
    ],
)
def test_one_that_makes_no_sense_spoils_only_itself(
    wire: Wire, bad: create_acls.AclCreation, code: int, told: str
) -> None:
    (refused, why), made = create(wire, bad, entry())
    assert refused == code
    assert why.startswith(told)
    assert made == (0, None)


@pytest.mark.parametrize(
    "bad", [entry(ANY), entry(pattern=MATCH), entry(operation=1), entry(says=1), entry(who="alice")]
)
def test_one_that_no_entry_can_be_spoils_all(wire: Wire, bad: create_acls.AclCreation) -> None:
    assert [code for code, _ in create(wire, entry(), bad)] == [-1, -1]
    assert describe(wire, entry_filter()) == []


def test_code_0_ends_the_connection(wire: Wire) -> None:
    for key, request in (
        (ApiKey.CREATE_ACLS, create_acls.Request([entry(0)])),
        (ApiKey.DELETE_ACLS, delete_acls.Request([entry_filter(pattern=0)])),
        (ApiKey.DESCRIBE_ACLS, describe_acls.Request(0, None, 3, None, None, 1, 1)),
    ):
        with pytest.raises(ConnectionLost):
            wire.ask(key, 3, request)


def test_the_last_entry_takes_its_node(wire: Wire) -> None:
    create(wire, entry())
    assert "/kafka-acl/Topic/orders" in wire.cluster.store_paths()
    delete(wire, entry_filter())
    assert "/kafka-acl/Topic/orders" not in wire.cluster.store_paths()
    assert "/kafka-acl/Topic" in wire.cluster.store_paths()


def test_lists_survive_a_broker(wire: Wire) -> None:
    create(wire, entry(), broker=1)
    wire.cluster.restart_broker(1)
    assert describe(wire, entry_filter()) == [(TOPIC, "orders", LITERAL, ["User:alice"])]


def test_librdkafka_makes_finds_and_removes_them(wire: Wire) -> None:
    admin = AdminClient({"bootstrap.servers": wire.cluster.bootstrap_servers})
    binding = AclBinding(
        ResourceType.TOPIC,
        "orders",
        ResourcePatternType.PREFIXED,
        "User:alice",
        "*",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )
    for made in admin.create_acls([binding]).values():
        assert made.result() is None
    everything = AclBindingFilter(
        ResourceType.ANY,
        None,
        ResourcePatternType.ANY,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    assert admin.describe_acls(everything).result() == [binding]
    for removed in admin.delete_acls([everything]).values():
        assert removed.result() == [binding]
    assert admin.describe_acls(everything).result() == []


def test_authorized_operations_tell_what_the_caller_may(wire: Wire) -> None:
    wire.cluster.create_topic("t")
    admin = AdminClient({"bootstrap.servers": wire.cluster.bootstrap_servers})
    described = admin.describe_cluster(include_authorized_operations=True).result()
    assert described.authorized_operations is not None
    assert AclOperation.ALTER in described.authorized_operations
