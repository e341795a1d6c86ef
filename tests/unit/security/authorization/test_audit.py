"""The audit line: Kafka's words, ours behind them, nobody's second line."""

from __future__ import annotations

from klamm.security.authorization.acls import Operation, ResourceType
from klamm.security.authorization.audit import Decision
from klamm.security.authorization.rights import Right
from klamm.security.principals import Principal

WRITE = Right(Operation.WRITE, ResourceType.TOPIC)


def test_line_is_kafkas() -> None:
    told = Decision(
        principal=Principal("User", "a"), host="10.0.0.1", right=WRITE, name="orders",
        api="Produce", allowed=False, count=3,
    )  # fmt: skip
    assert told.line == (
        "Principal = User:a is Denied Operation = Write from host = 10.0.0.1 on resource = "
        "Topic:LITERAL:orders for request = Produce with resourceRefCount = 3"
    )


def test_line_for_some_resource_names_none_and_ours_comes_last() -> None:
    told = Decision(
        principal=Principal("User", "a"), host="h", right=WRITE, name=None,
        api="InitProducerId", allowed=True, listener="CLIENTS", client_id="c\nPrincipal = root",
    )  # fmt: skip
    assert "on resource = Topic:UNKNOWN:NONE" in told.line
    assert told.line.endswith(
        "resourceRefCount = 0 on listener = CLIENTS by client = c\\nPrincipal = root"
    )
