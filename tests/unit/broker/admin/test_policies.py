"""Policies named in settings."""

from __future__ import annotations

import pytest

from klamm.broker.admin.policies import Policies
from klamm.controller.admission import Proposal
from klamm.model.errors import UsageError
from klamm.model.settings import BrokerSettings

PROPOSAL = Proposal(topic="t", partitions=3, replication_factor=1, assignments=None, configs={})


def few_partitions(proposal: Proposal) -> str | None:
    count = proposal.partitions or 0
    return f"{proposal.topic} has more than 2 partitions" if count > 2 else None


class Remembering:
    """Refuses what it has seen before: it must be made once only."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def __call__(self, topic: str) -> str | None:
        if topic in self.seen:
            return "seen before"
        self.seen.add(topic)
        return None


def broken(proposal: Proposal) -> str | None:
    raise RuntimeError("out of order")


NOT_CALLABLE = 7


def policies(**given: str) -> Policies:
    names = {
        "create": "create.topic.policy.class.name",
        "alter": "alter.config.policy.class.name",
        "delete": "klamm.delete.topic.policy",
    }
    return Policies.of(BrokerSettings.parse({names[key]: value for key, value in given.items()}))


def test_without_settings_nobody_is_asked() -> None:
    assert policies() == Policies(None, None, None)


def test_a_function_refuses_with_its_sentence() -> None:
    create = policies(create=f"{__name__}:few_partitions").create
    assert create is not None
    assert create(PROPOSAL) == "t has more than 2 partitions"


def test_a_class_is_made_once() -> None:
    delete = policies(delete=f"{__name__}:Remembering").delete
    assert delete is not None
    assert [delete("a"), delete("b"), delete("a")] == [None, None, "seen before"]


def test_a_policy_that_fails_refuses() -> None:
    create = policies(create=f"{__name__}:broken").create
    assert create is not None
    why = create(PROPOSAL)
    assert why == "the policy of create.topic.policy.class.name failed: out of order"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere", "package.module:callable"),
        (":f", "package.module:callable"),
        ("klamm.nowhere:f", "No module named 'klamm.nowhere'"),
        (f"{__name__}:absent", "has no absent"),
        (f"{__name__}:NOT_CALLABLE", "is not callable"),
    ],
)
def test_a_policy_that_is_not_there_is_told_at_the_start(name: str, words: str) -> None:
    with pytest.raises(UsageError, match=r"create\.topic\.policy\.class\.name") as raised:
        policies(create=name)
    assert words in str(raised.value)
