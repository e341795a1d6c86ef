"""DescribeAcls (29), versions 0-3: the access control lists that a filter finds.

Any broker answers, from its own copy, which it first brings up to date.
"""

from __future__ import annotations

from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsResource,
    Request,
    Response,
)
from klamm.security.authorization.acls import Acl, Pattern
from klamm.security.authorization.alterations import filter_of, grouped
from klamm.security.authorization.apis import need_of

_CLUSTER: Final = need_of(ApiKey.DESCRIBE_ACLS, "cluster")


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    wanted = filter_of(
        resource_type=request.resource_type_filter,
        resource_name=request.resource_name_filter,
        pattern_type=request.pattern_type_filter,
        principal=request.principal_filter,
        host=request.host_filter,
        operation=request.operation,
        permission=request.permission_type,
    )
    parts.access.demand(context, _CLUSTER)
    if parts.lists is None:
        raise parts.access.no_lists()
    await parts.lists.catch_up()
    found = grouped(parts.lists.snapshot.found(wanted))
    return Response(resources=[_resource(pattern, acls) for pattern, acls in found.items()])


def _resource(pattern: Pattern, acls: list[Acl]) -> DescribeAclsResource:
    return DescribeAclsResource(
        pattern.type,
        pattern.name,
        pattern.pattern,
        [AclDescription(acl.principal, acl.host, acl.operation, acl.permission) for acl in acls],
    )
