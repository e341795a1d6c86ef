"""ACL nodes: Kafka's bytes, read and written."""

from __future__ import annotations

from klamm.security.authorization.acls import (
    Acl,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from klamm.store.layout.acls import (
    ACL_ROOTS,
    acl_change,
    acl_path,
    acl_type,
    decode_acl_change,
    decode_acls,
    decode_extended_acl_change,
    encode_acls,
)

READ = Acl("User:alice", "*", Operation.READ, Permission.ALLOW)
ORDERS = Pattern(ResourceType.TOPIC, "orders")
PREFIX = Pattern(ResourceType.TRANSACTIONAL_ID, "t", PatternType.PREFIXED)


def test_node_is_kafkas_bytes() -> None:
    assert encode_acls([READ]) == (
        b'{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow",'
        b'"operation":"Read","host":"*"}]}'
    )
    assert decode_acls(encode_acls([READ])) == {READ}


def test_every_operation_comes_back() -> None:
    acls = frozenset(
        Acl("User:a", "h", operation, permission)
        for operation in Operation
        if operation >= Operation.ALL
        for permission in (Permission.ALLOW, Permission.DENY)
    )
    assert decode_acls(encode_acls(acls)) == acls
    assert b'"DescribeConfigs"' in encode_acls(acls)


def test_capitals_are_read() -> None:
    node = (
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"DENY",'
        b'"operation":"CLUSTER_ACTION","host":"h"}]}'
    )
    assert decode_acls(node) == {Acl("User:a", "h", Operation.CLUSTER_ACTION, Permission.DENY)}


def test_nonsense_is_none_and_never_a_part_of_the_list() -> None:
    good = '{"principal":"User:a","permissionType":"Allow","operation":"Read","host":"*"}'
    bad = good.replace('"Allow"', '"Forbid"')
    for node in (
        None,
        b"",
        b"{}",
        b'{"version":2,"acls":[]}',
        b"[",
        f'{{"version":1,"acls":[{good},{bad}]}}'.encode(),
    ):
        assert decode_acls(node) is None


def test_paths_are_kafkas() -> None:
    assert acl_path(ORDERS) == "/kafka-acl/Topic/orders"
    assert acl_path(PREFIX) == "/kafka-acl-extended/prefixed/TransactionalId/t"
    assert len(ACL_ROOTS) == 14
    assert acl_type("DelegationToken") is ResourceType.DELEGATION_TOKEN
    assert acl_type("Any") is None
    assert acl_type("Cow") is None


def test_announcements_are_kafkas() -> None:
    assert acl_change(ORDERS) == ("/kafka-acl-changes/acl_changes_", b"TOPIC:orders")
    prefix, data = acl_change(PREFIX)
    assert prefix == "/kafka-acl-extended-changes/acl_changes_"
    assert data == (
        b'{"version":1,"resourceType":"TRANSACTIONAL_ID","name":"t","patternType":"PREFIXED"}'
    )
    assert decode_acl_change(b"TOPIC:orders") == ORDERS
    assert decode_acl_change(b"USER:User:a") == Pattern(ResourceType.USER, "User:a")
    assert decode_extended_acl_change(data) == PREFIX
    assert decode_acl_change(b"orders") is None
    assert (
        decode_extended_acl_change(
            b'{"version":1,"resourceType":"TOPIC","name":"t","patternType":"MATCH"}'
        )
        is None
    )
