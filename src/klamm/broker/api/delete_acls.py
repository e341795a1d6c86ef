"""DeleteAcls (31), versions 0-3: remove the entries of access control lists that filters find.

Any broker serves it. It finds them in its own copy, which it first brings up to date.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from klamm.broker.access.lists import Edit
from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode, Refused
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    Request,
    Response,
)
from klamm.security.authorization.acls import Acl, Binding, Filter, Pattern
from klamm.security.authorization.alterations import filter_of, plan_deletions
from klamm.security.authorization.apis import need_of

_CLUSTER: Final = need_of(ApiKey.DELETE_ACLS, "cluster")


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    filters = [_filter(each) for each in request.filters]
    parts.access.demand(context, _CLUSTER)
    if parts.lists is None:
        raise parts.access.no_lists()
    await parts.lists.catch_up()
    planned = plan_deletions(parts.lists.snapshot, filters)
    found = [binding for bindings in planned.deleted for binding in bindings]
    failed = await parts.lists.write(_edits(found))
    return Response(
        filter_results=[
            DeleteAclsFilterResult(matching_acls=[_matching(binding, failed) for binding in each])
            for each in planned.deleted
        ]
    )


def failure(request: Request, code: ErrorCode, message: str | None) -> Response:
    """The same refusal for every filter."""
    return Response(filter_results=[DeleteAclsFilterResult(code, message) for _ in request.filters])


def _filter(asked: DeleteAclsFilter) -> Filter:
    return filter_of(
        resource_type=asked.resource_type_filter,
        resource_name=asked.resource_name_filter,
        pattern_type=asked.pattern_type_filter,
        principal=asked.principal_filter,
        host=asked.host_filter,
        operation=asked.operation,
        permission=asked.permission_type,
    )


def _edits(found: Iterable[Binding]) -> dict[Pattern, Edit]:
    removed: dict[Pattern, set[Acl]] = {}
    for binding in found:
        removed.setdefault(binding.pattern, set()).add(binding.acl)
    return {pattern: Edit(removed=frozenset(acls)) for pattern, acls in removed.items()}


def _matching(binding: Binding, failed: Mapping[Pattern, Refused]) -> DeleteAclsMatchingAcl:
    pattern, acl = binding.pattern, binding.acl
    refused = failed.get(pattern)
    return DeleteAclsMatchingAcl(
        error_code=ErrorCode.NONE if refused is None else refused.code,
        error_message=None if refused is None else refused.why,
        resource_type=pattern.type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
