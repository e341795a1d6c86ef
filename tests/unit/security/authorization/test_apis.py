"""The table of all APIs against the specification's: each row, each code, and nothing forgotten."""

from __future__ import annotations

import itertools

import pytest

from klamm.protocol.apis import APIS as SERVED
from klamm.protocol.private import PrivateKey
from klamm.security.authorization.acls import (
    CLUSTER_NAME,
    Acl,
    Binding,
    Operation,
    Pattern,
    Permission,
    ResourceType,
)
from klamm.security.authorization.apis import (
    APIS,
    BEFORE_AUTHENTICATION,
    NOT_ENABLED,
    need_of,
)
from klamm.security.authorization.authorizer import OPEN, Authorizer
from klamm.security.authorization.needs import Need, Option, Told
from klamm.security.authorization.rights import SUPPORTED
from klamm.security.authorization.snapshot import snapshot_of
from klamm.security.principals import Principal

ALICE = Principal("User", "alice")
HERE = "10.0.0.1"
# Kafka 3.9's a second time, in another form: key, case, version, rights, code, where it is told.
# A letter is a type: T topic, G group, C cluster, X transactional id, D token, U user; q is quiet.
BOOK = """
0 transaction 9 WRITE:X 53 all_partitions
0 topic 9 WRITE:T 29 partition
1 follower 13 CLUSTER_ACTION:C 29 all_partitions
1 topic 13 READ:T 29 partition
2 topic 5 DESCRIBE:T 29 partition
3 topic 9 DESCRIBE:T 29 topic
3 all_topics 9 DESCRIBE:Tq 0 omitted
3 create 9 CREATE:Cq|CREATE:T 29 topic
3 cluster_operations 8 DESCRIBE:C 0 zero
4 cluster 5 CLUSTER_ACTION:C 31 request_and_items
5 cluster 3 CLUSTER_ACTION:C 31 request_and_items
6 cluster 6 CLUSTER_ACTION:C 31 request
7 cluster 3 CLUSTER_ACTION:C 31 request
8 group 8 READ:G 30 all_partitions
8 topic 8 READ:T 29 partition
9 group 1 DESCRIBE:G 30 all_partitions
9 group 2 DESCRIBE:G 30 request
9 group 7 DESCRIBE:G 30 request
9 group 8 DESCRIBE:G 30 group
9 topic 8 DESCRIBE:T 29 partition
9 all_topics 8 DESCRIBE:Tq 0 omitted
10 group 3 DESCRIBE:G 30 request
10 group 4 DESCRIBE:G 30 key
10 transaction 3 DESCRIBE:X 53 request
10 transaction 4 DESCRIBE:X 53 key
10 share 6 CLUSTER_ACTION:C 31 key
11 group 5 READ:G 30 request
12 group 4 READ:G 30 request
13 group 4 READ:G 30 request
14 group 4 READ:G 30 request
15 group 5 DESCRIBE:G 30 group
16 group 4 DESCRIBE:Cq|DESCRIBE:Gq 0 omitted
19 topic 5 CREATE:Cq|CREATE:T 29 topic
19 configs 5 DESCRIBE_CONFIGS:Tq 29 configs
20 name 6 DESCRIBE:T 29 topic
20 topic 6 DELETE:T 29 topic
21 topic 2 DELETE:T 29 partition
22 transaction 4 WRITE:X 53 request
22 idempotent 4 IDEMPOTENT_WRITE:Cq|WRITE:Ts 31 request
23 topic 4 CLUSTER_ACTION:Cq|DESCRIBE:T 29 partition
24 transaction 3 WRITE:X 53 all_partitions
24 topic 3 WRITE:T 29 partition
24 cluster 4 CLUSTER_ACTION:C 31 request
25 transaction 3 WRITE:X 53 request
25 group 3 READ:G 30 request
26 transaction 3 WRITE:X 53 request
27 cluster 1 ALTER:Cq|CLUSTER_ACTION:C 31 all_partitions
28 transaction 3 WRITE:X 53 all_partitions
28 group 3 READ:G 30 all_partitions
28 topic 3 READ:T 29 partition
29 cluster 2 DESCRIBE:C 31 request
30 cluster 2 ALTER:C 31 item
31 cluster 2 ALTER:C 31 item
32 broker 4 DESCRIBE_CONFIGS:C 31 item
32 topic 4 DESCRIBE_CONFIGS:T 29 item
33 broker 2 ALTER_CONFIGS:C 31 item
33 topic 2 ALTER_CONFIGS:T 29 item
34 cluster 2 ALTER:C 31 all_partitions
35 cluster 2 DESCRIBE:C 0 omitted
35 cluster 3 DESCRIBE:C 31 request
37 topic 3 ALTER:T 29 topic
38 owner 3 CREATE_TOKENS:U 65 request
41 token 3 DESCRIBE:Dq 0 omitted
41 owner 3 DESCRIBE_TOKENS:Uq 0 omitted
42 group 2 DELETE:G 30 group
43 cluster 0 ALTER:C 31 all_partitions
43 cluster 1 ALTER:C 31 request_and_items
44 broker 1 ALTER_CONFIGS:C 31 item
44 topic 1 ALTER_CONFIGS:T 29 item
45 cluster 0 ALTER:C 31 request_and_items
46 cluster 0 DESCRIBE:C 31 request
47 group 0 DELETE:G 30 request
47 topic 0 READ:T 29 partition
48 cluster 1 DESCRIBE_CONFIGS:C 31 request
49 cluster 1 ALTER_CONFIGS:C 31 item
50 cluster 0 DESCRIBE:C 31 request
51 cluster 0 ALTER:C 31 item
56 cluster 2 CLUSTER_ACTION:C 31 request
57 cluster 1 ALTER:C 31 request
58 cluster 0 CLUSTER_ACTION:C 31 request
60 cluster_operations 1 DESCRIBE:C 0 zero
61 topic 0 READ:T 29 partition
65 transaction 0 DESCRIBE:X 53 item
65 topic 0 DESCRIBE:Tq 0 omitted
66 transaction 1 DESCRIBE:Xq 0 omitted
67 cluster 0 CLUSTER_ACTION:C 31 request
68 group 0 READ:G 30 request
68 topic 1 DESCRIBE:T 29 request
69 group 0 DESCRIBE:G 30 group
69 topic 1 DESCRIBE:T 29 group
1000 line 0 DESCRIBE:Cq|DESCRIBE:Tq 0 omitted
1001 topic 0 DESCRIBE:T 29 request
1001 cluster 0 DESCRIBE:C 31 request
1002 cluster 0 ALTER:C 31 request
1003 cluster 0 DESCRIBE:C 31 request
1004 topic 0 ALTER:T 29 request
1005 topic 0 DESCRIBE:T 29 request
1006 cluster 0 CLUSTER_ACTION:C 31 request
1007 topic 0 DESCRIBE:T 29 request
1008 topic 0 ALTER:T 29 request
1010 cluster 0 DESCRIBE:C 31 request
1011 cluster 0 CLUSTER_ACTION:C 31 request
1012 cluster 0 CLUSTER_ACTION:C 31 request
1013 topic 0 ALTER:T 29 request
1014 cluster 0 DESCRIBE:C 31 request
"""
LETTERS = {kind: kind.name[0] for kind in SUPPORTED} | {ResourceType.TRANSACTIONAL_ID: "X"}
ROWS = [line.split() for line in BOOK.strip().splitlines()]
CASES = [(api.key, need) for api in APIS.values() for need in api.needs]


def written(option: Option) -> str:
    marks = "q" * option.quiet + "s" * option.some
    return f"{option.right.operation.name}:{LETTERS[option.right.type]}{marks}"


@pytest.mark.parametrize(("key", "case", "version", "rights", "code", "told"), ROWS)
def test_row_is_kafkas(
    key: str, case: str, version: str, rights: str, code: str, told: str
) -> None:
    need = need_of(int(key), case.replace("_", " "), int(version))
    assert "|".join(map(written, need.options)) == rights
    assert (need.code or 0) == int(code)
    assert need.told == told.replace("_", " ")


def test_book_has_every_row_of_the_table() -> None:
    asked = {(int(r[0]), r[1].replace("_", " ")) for r in ROWS}
    assert {(key, need.case) for key, need in CASES} == asked


def test_every_api_that_is_served_has_a_row_under_its_name() -> None:
    for key, api in SERVED.items():
        assert APIS[key].name == api.title
    for private in PrivateKey:
        assert APIS[private].name == private.name.title().replace("_", "")
    # Rows for what is not served: tokens until they are, features, forwarding.
    assert set(APIS) - set(SERVED) - set(PrivateKey) <= {38, 39, 40, 41, 57, 58}
    assert not NOT_ENABLED & set(SERVED)


def test_only_these_need_nothing() -> None:
    assert {key for key, api in APIS.items() if not api.needs} == {17, 18, 36, 39, 40, 1009}
    assert {17, 18, 36} == BEFORE_AUTHENTICATION


def test_brokers_own_requests() -> None:
    brokers = {key for key, need in CASES if need.is_for_brokers}
    assert brokers == {1, 4, 5, 6, 7, 10, 24, 56, 58, 67, 1006, 1011, 1012}


def test_versions_of_a_case_leave_no_gap() -> None:
    for api in APIS.values():
        by_case: dict[str, list[Need]] = {}
        for need in api.needs:
            by_case.setdefault(need.case, []).append(need)
        for needs in by_case.values():
            for earlier, later in itertools.pairwise(needs):
                assert later.low == earlier.high + 1, (api.name, later.case)
    with pytest.raises(LookupError, match="AddPartitionsToTxn v4 has no check called topic"):
        need_of(24, "topic", 4)


def test_order_is_controller_first_or_permission_first() -> None:
    first = {key for key, api in APIS.items() if 41 in api.first}
    assert first == {19, 20, 37, 51}
    # Whoever is not the controller says so only after the permission.
    assert not any(41 in APIS[key].first for key in (56, 57, 58, 67))


def test_every_right_is_one_that_its_type_has() -> None:
    for _, need in CASES:
        for option in need.options:
            assert option.right.operation in SUPPORTED[option.right.type], need


def test_loud_option_is_the_one_that_was_asked_for() -> None:
    create = need_of(19, "topic", 5)
    assert create.loud() == create.options[1]
    assert need_of(16, "group").loud() is None
    assert need_of(0, "topic").loud() == need_of(0, "topic").options[0]


def only(option: Option) -> Authorizer:
    """Lists that give exactly one right."""
    kind = option.right.type
    name = CLUSTER_NAME if kind is ResourceType.CLUSTER else "it"
    acl = Acl(ALICE.text, "*", option.right.operation, Permission.ALLOW)
    return Authorizer(snapshot=snapshot_of([Binding(Pattern(kind, name), acl)]))


@pytest.mark.parametrize(("key", "need"), CASES, ids=lambda x: x.case if isinstance(x, Need) else x)
def test_need_is_met_by_exactly_its_rights(key: int, need: Need) -> None:
    assert need.is_met(OPEN, "it")
    assert not need.is_met(Authorizer().caller(ALICE, HERE), "it")
    for option in need.options:
        assert need.is_met(only(option).caller(ALICE, HERE), "it")
        stranger = only(option).caller(Principal("User", "bob"), HERE)
        assert not need.is_met(stranger, "it")
        if option.right.type is not ResourceType.CLUSTER and not option.some:
            assert not need.is_met(only(option).caller(ALICE, HERE), "other")
    # No other operation on the same type is enough, but for what implies it.
    wanted = {(o.right.type, o.right.operation) for o in need.options}
    implied = {Operation.DESCRIBE: {3, 4, 6, 7}, Operation.DESCRIBE_CONFIGS: {11}}
    for kind, operations in SUPPORTED.items():
        for operation in operations:
            enough = any(
                kind is k and (operation is o or (operation in implied.get(o, ())))
                for k, o in wanted
            )
            other = Option(type(need.options[0].right)(operation, kind))
            assert need.is_met(only(other).caller(ALICE, HERE), "it") is enough, (kind, operation)


def test_denial_that_is_not_told_has_no_code() -> None:
    for _, need in CASES:
        assert (need.code is None) == (need.told in (Told.OMITTED, Told.ZERO))


def test_codes_and_words_beside_the_plain_denial() -> None:
    assert need_of(24, "topic", 3).others == 55
    assert need_of(19, "topic", 5).message == "Authorization failed."
    assert need_of(37, "topic").message == "The topic authorization is failed."
