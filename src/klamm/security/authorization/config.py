"""From settings to an authorizer."""

from __future__ import annotations

from collections.abc import Mapping

from klamm.model.errors import Refused
from klamm.security.authorization.authorizer import Authorizer
from klamm.security.principals import parse_super_users


def authorizer_of(texts: Mapping[str, str]) -> Authorizer | Refused:
    """Kafka's authorizer, without lists yet: until they are loaded only super users may anything.

    What holds where no list speaks (`allow.everyone.if.no.acl.found`) must not be asked before all
    lists are there, so nobody is let in before `replace` has been called once.
    """
    super_users = parse_super_users(texts.get("super.users", ""))
    if isinstance(super_users, Refused):
        return super_users
    word = texts.get("allow.everyone.if.no.acl.found", "false").strip().lower()
    if word not in ("true", "false"):
        return Refused(f"allow.everyone.if.no.acl.found is true or false, not {word}")
    return Authorizer(super_users=super_users, allow_everyone=word == "true")
