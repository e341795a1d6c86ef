"""Settings become an authorizer."""

from __future__ import annotations

import pytest

from klamm.model.errors import Refused
from klamm.security.authorization.acls import Operation, ResourceType
from klamm.security.authorization.authorizer import Authorizer
from klamm.security.authorization.config import authorizer_of
from klamm.security.authorization.rights import Right
from klamm.security.authorization.snapshot import Snapshot
from klamm.security.principals import Principal

READ = Right(Operation.READ, ResourceType.TOPIC)


def test_super_users_and_everybody() -> None:
    rules = authorizer_of({"super.users": "User:a", "allow.everyone.if.no.acl.found": "True"})
    assert isinstance(rules, Authorizer)
    stranger = rules.caller(Principal("User", "b"), "h")
    # Before lists are there nobody knows that there is none.
    assert not stranger.allows(READ, "t")
    assert not stranger.allows_some(READ)
    assert rules.caller(Principal("User", "a"), "h").allows(READ, "t")
    rules.replace(Snapshot())
    assert stranger.allows(READ, "t")
    assert stranger.allows_some(READ)


@pytest.mark.parametrize(
    "texts", [{"super.users": "a"}, {"allow.everyone.if.no.acl.found": "perhaps"}]
)
def test_nonsense_is_refused(texts: dict[str, str]) -> None:
    assert isinstance(authorizer_of(texts), Refused)
