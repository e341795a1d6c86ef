"""CreateAcls (30), versions 0-3: add entries to access control lists.

Any broker serves it. An entry that is there already is a success. The broker that answers heeds the
new entries from then on, the others a moment later.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from klamm.broker.access.lists import Edit
from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode, Refused
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.create_acls import AclCreation, AclCreationResult, Request, Response
from klamm.security.authorization.acls import Acl, Binding, Operation, Pattern
from klamm.security.authorization.alterations import Creation, plan_creations
from klamm.security.authorization.apis import need_of
from klamm.security.authorization.rights import SUPPORTED

log = logging.getLogger(__name__)

_CLUSTER: Final = need_of(ApiKey.CREATE_ACLS, "cluster")


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    asked = [_creation(creation) for creation in request.creations]
    parts.access.demand(context, _CLUSTER)
    if parts.lists is None:
        raise parts.access.no_lists()
    planned = plan_creations(parts.lists.snapshot, asked)
    wanted = [binding for binding in planned.bindings if binding is not None]
    _warn_of_idle(wanted)
    failed = await parts.lists.write(_edits(wanted))
    results = [
        outcome or (failed.get(binding.pattern) if binding is not None else None)
        for binding, outcome in zip(planned.bindings, planned.outcomes, strict=True)
    ]
    return Response(results=[_result(outcome) for outcome in results])


def failure(request: Request, code: ErrorCode, message: str | None) -> Response:
    """The same refusal for every creation."""
    return Response(results=[AclCreationResult(code, message) for _ in request.creations])


def _creation(asked: AclCreation) -> Creation:
    return Creation(
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        pattern_type=asked.resource_pattern_type,
        principal=asked.principal,
        host=asked.host,
        operation=asked.operation,
        permission=asked.permission_type,
    )


def _edits(wanted: Iterable[Binding]) -> dict[Pattern, Edit]:
    added: dict[Pattern, set[Acl]] = {}
    for binding in wanted:
        added.setdefault(binding.pattern, set()).add(binding.acl)
    return {pattern: Edit(added=frozenset(acls)) for pattern, acls in added.items()}


def _warn_of_idle(wanted: Iterable[Binding]) -> None:
    """Kafka keeps entries that never apply, and so do we; whoever made one had better know."""
    for pattern, acl in ((binding.pattern, binding.acl) for binding in wanted):
        if acl.operation is not Operation.ALL and acl.operation not in SUPPORTED[pattern.type]:
            log.warning(
                "an ACL has no effect: nobody asks for this operation on this type",
                extra={"type": pattern.type.title, "operation": acl.operation.title},
            )


def _result(outcome: Refused | None) -> AclCreationResult:
    if outcome is None:
        return AclCreationResult()
    return AclCreationResult(outcome.code, outcome.why or None)
