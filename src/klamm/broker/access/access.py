"""Access: whether the caller of a request may have what it asks for.

Without an authorizer everybody may do everything, and nothing here costs anything. With one, a
caller is a principal at an address; its permissions are found once a connection and kept there
(`Peer.standing`), and follow the lists as they change. Somebody else's rules are asked each time.

A broker of this cluster that has proven what it is may do everything: what it shows to know opens
the store itself. One that is taken for a broker because the operator named its address
(`klamm.internal.requests.from`) may do what brokers do, and needs rights for all else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container
from typing import Final

from klamm.broker.access.audit import Audit
from klamm.broker.net.context import RequestContext
from klamm.broker.net.peer import Peer, Standing
from klamm.broker.plugins import load
from klamm.model.errors import ErrorCode, Refused, RequestRefused, UsageError
from klamm.model.settings import BrokerSettings
from klamm.protocol.apis import ApiKey
from klamm.repeats import limited
from klamm.security.authorization.acls import CLUSTER_NAME, Operation, ResourceType
from klamm.security.authorization.apis import need_of
from klamm.security.authorization.authorizer import (
    OPEN,
    Asked,
    Authorizer,
    Permissions,
    Question,
)
from klamm.security.authorization.config import authorizer_of
from klamm.security.authorization.hosts import host_text
from klamm.security.authorization.needs import Need
from klamm.security.authorization.rights import Right
from klamm.security.principals import Principal, parse_principal
from klamm.security.settings.table import is_acl_authorizer

log = limited(logging.getLogger(__name__))

_SETTING: Final = "authorizer.class.name"
_ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"
_OWN_SETTINGS: Final = ("super.users", _ALLOW_EVERYONE)
WRITE_TOPIC: Final = Right(Operation.WRITE, ResourceType.TOPIC)

# Kafka's words for a cluster that keeps no access control lists.
NO_AUTHORIZER: Final = "No Authorizer is configured."
# Whoever asks as a replica has to be one.
FOLLOWER: Final = need_of(ApiKey.FETCH, "follower")

Decide = Callable[[Question], bool]


class _Everything(Container[str]):
    """All names."""

    def __contains__(self, name: object) -> bool:
        return True


EVERYTHING: Final = _Everything()


class Access:
    """The access of callers to one broker."""

    def __init__(
        self,
        audit: Audit,
        *,
        lists: Authorizer | None = None,
        decide: Decide | None = None,
        is_super: Callable[[Principal], bool] | None = None,
    ) -> None:
        self.audit: Final = audit
        self.lists: Final = lists  # None where there are none, or somebody else decides
        self._decide = decide
        self._is_super = is_super or (lambda who: lists is not None and lists.is_super(who))
        self.is_open: Final = lists is None and decide is None
        self._generation = 0
        if not self.is_open:
            audit.begin()

    @classmethod
    def of(cls, settings: BrokerSettings, elapsed_ms: Callable[[], int]) -> Access:
        """The access that the settings ask for; a UsageError says what cannot be."""
        audit, name = Audit(elapsed_ms), settings.str(_SETTING).strip()
        if not name:
            return cls(audit)
        texts = {own: settings.text(own) or "" for own in _OWN_SETTINGS}
        lists = authorizer_of(texts)
        if isinstance(lists, Refused):
            raise UsageError(lists.why)
        if is_acl_authorizer(name):
            return cls(audit, lists=lists)
        if settings.bool(_ALLOW_EVERYONE):
            raise UsageError(
                f"{_ALLOW_EVERYONE} is about access control lists, and {_SETTING} names other rules"
            )
        return cls(audit, decide=_guarded(load(_SETTING, name), lists), is_super=lists.is_super)

    def permissions(self, context: RequestContext) -> Permissions:
        """The permissions of whoever sent this request."""
        peer = context.peer
        if self.is_open or peer.has_proven:
            return OPEN
        standing = peer.standing
        if standing is None or standing.name != context.principal:
            standing = peer.standing = self._standing(context)
        return standing.permissions

    def permits(self, context: RequestContext, need: Need, name: str = CLUSTER_NAME) -> bool:
        """Whether a need is met; a denial is told to the audit log."""
        if self.is_open:
            return True
        permissions = self.permissions(context)
        if need.is_met(permissions, name):
            if permissions is not OPEN:
                self._allowed(context, need, name)
            return True
        self.audit.denied(context, principal_of(context), need, name)
        return False

    def _allowed(self, context: RequestContext, need: Need, name: str) -> None:
        who = principal_of(context)
        if need.changes and self._is_super(who):
            self.audit.overruled(context, who, need, name)
        else:
            self.audit.allowed(context, who, need, name)

    def demand(self, context: RequestContext, need: Need, name: str = CLUSTER_NAME) -> None:
        """Refuse the whole request unless a need is met."""
        if not self.permits(context, need, name):
            assert need.code is not None, need
            raise RequestRefused(need.code, need.message)

    def refusal(
        self, context: RequestContext, need: Need, name: str = CLUSTER_NAME
    ) -> ErrorCode | None:
        """The code of a denial; None where a need is met."""
        return None if self.permits(context, need, name) else need.code

    def allowed(self, context: RequestContext, need: Need) -> Container[str]:
        """The names for which a need is met; each is asked about once, when it is looked for."""
        return EVERYTHING if self.is_open else _Allowed(self, context, need)

    def admits_broker(self, context: RequestContext, need: Need) -> bool:
        """Whether a request that is for brokers only is taken from here."""
        if context.peer.is_broker:
            return True
        return not self.is_open and self.permits(context, need)

    def may_write(self, peer: Peer, topic: str) -> bool:
        """Whether a peer is known to have the right to write: for the hot path, which asks again
        at length where it is not."""
        standing = peer.standing
        return standing is not None and standing.permissions.allows(WRITE_TOPIC, topic)

    def operations(self, context: RequestContext, kind: ResourceType, name: str) -> int:
        """The bit field `authorized_operations` of a resource."""
        return self.permissions(context).operations(kind, name)

    def sharers(self, context: RequestContext) -> tuple[str, str, int] | None:
        """Whoever has the same rights now: an answer that was filtered serves them as well.

        None where an answer serves nobody else, because rules that are not ours made it.
        """
        if self.is_open or context.peer.has_proven:
            return ("", "", 0)
        if self.lists is None:
            return None
        return context.principal, context.client_host, self._generation

    def no_lists(self) -> RequestRefused:
        """The refusal of whoever asks about lists where there are none."""
        if self.is_open:
            return RequestRefused(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        why = f"{_SETTING} names rules of its own: there are no ACLs to be listed or changed."
        return RequestRefused(ErrorCode.SECURITY_DISABLED, why)

    def lists_changed(self) -> None:
        """Forgets earlier answers, which serve nobody any more."""
        self._generation += 1

    def _standing(self, context: RequestContext) -> Standing:
        who, host = principal_of(context), host_text(context.client_host)
        if self.lists is not None:
            permissions = self.lists.caller(who, host)
        else:
            assert self._decide is not None, "an access that is open asks nobody"
            permissions = Asked(self._decide, who, host)
        return Standing(context.principal, permissions)


class _Allowed(Container[str]):
    """The names that one need of one request is met for."""

    def __init__(self, access: Access, context: RequestContext, need: Need) -> None:
        self._access = access
        self._context = context
        self._need = need
        self._known: dict[str, bool] = {}

    def __contains__(self, name: object) -> bool:
        assert isinstance(name, str), name
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._access.permits(self._context, self._need, name)
        return known


def principal_of(context: RequestContext) -> Principal:
    """The principal of a request; one that makes no sense is nobody's, not even ANONYMOUS."""
    parsed = parse_principal(context.principal)
    return Principal("?", context.principal) if isinstance(parsed, Refused) else parsed


def _guarded(ask: Callable[[Question], object], own: Authorizer) -> Decide:
    """Somebody else's rules. `super.users` hold all the same, and rules that fail deny."""

    def decide(question: Question) -> bool:
        if own.is_super(question.principal):
            return True
        try:
            return ask(question) is True
        except Exception as fault:
            log.error("the authorizer failed and the caller is denied", exc_info=fault)
            return False

    return decide
