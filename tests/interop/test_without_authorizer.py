"""ACLs where there is no authorizer: refused in Kafka's words, the connection stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from interop.wire import Wire
from klamm import Cluster
from klamm.model.errors import ErrorCode
from klamm.protocol.apis import APIS, ApiKey
from klamm.protocol.messages import create_acls, delete_acls, describe_acls


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with Cluster(1) as cluster:
        yield Wire(cluster)


CREATION = create_acls.AclCreation(2, "orders", 3, "User:alice", "*", 3, 3)
FILTER = delete_acls.DeleteAclsFilter(2, None, 3, None, None, 1, 1)
REQUESTS = [
    (ApiKey.DESCRIBE_ACLS, describe_acls.Request(2, None, 3, None, None, 1, 1), ""),
    (ApiKey.CREATE_ACLS, create_acls.Request([CREATION, CREATION]), "results"),
    (ApiKey.DELETE_ACLS, delete_acls.Request([FILTER, FILTER]), "filter_results"),
]


@pytest.mark.parametrize(
    ("key", "version", "request_", "results"),
    [
        (key, version, request, results)
        for key, request, results in REQUESTS
        for version in range(APIS[key].served.low, APIS[key].served.high + 1)
    ],
)
def test_acls_are_refused_in_kafkas_words(
    wire: Wire, key: ApiKey, version: int, request_: Any, results: str
) -> None:
    answer = wire.ask(key, version, request_)
    told = getattr(answer, results) if results else [answer]
    assert [(each.error_code, each.error_message) for each in told] == [
        (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    ] * (2 if results else 1)
