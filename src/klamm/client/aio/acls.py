"""Access control lists: one call each to look, to add and to remove."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import TypeVar

from klamm.client.aio.cluster import Client
from klamm.client.errors import code_of
from klamm.model.errors import RequestRefused
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import create_acls, delete_acls, describe_acls
from klamm.security.authorization.acls import (
    Acl,
    Binding,
    Filter,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)

_Code = TypeVar("_Code", bound=IntEnum)


async def describe(client: Client, wanted: Filter | None = None) -> list[Binding]:
    """The entries that a filter means, or all, sorted."""
    one = wanted or Filter()
    request = describe_acls.Request(
        one.type, one.name, one.pattern, one.principal, one.host, one.operation, one.permission
    )
    response: describe_acls.Response = await client.anywhere(ApiKey.DESCRIBE_ACLS, request)
    _check(response.error_code, response.error_message)
    return sorted(
        Binding(
            _pattern(found.resource_type, found.resource_name, found.pattern_type),
            _acl(entry.principal, entry.host, entry.operation, entry.permission_type),
        )
        for found in response.resources
        for entry in found.acls
    )


async def create(client: Client, bindings: Iterable[Binding]) -> None:
    """Adds entries; RequestRefused names the first that a broker refuses."""
    wanted = list(bindings)
    request = create_acls.Request([_creation(binding) for binding in wanted])
    response: create_acls.Response = await client.anywhere(ApiKey.CREATE_ACLS, request)
    for result in response.results:
        _check(result.error_code, result.error_message)


async def delete(client: Client, filters: Sequence[Filter]) -> list[Binding]:
    """Removes the entries that filters mean; which those were."""
    request = delete_acls.Request(
        [
            delete_acls.DeleteAclsFilter(
                one.type,
                one.name,
                one.pattern,
                one.principal,
                one.host,
                one.operation,
                one.permission,
            )
            for one in filters
        ]
    )
    response: delete_acls.Response = await client.anywhere(ApiKey.DELETE_ACLS, request)
    gone = []
    for result in response.filter_results:
        _check(result.error_code, result.error_message)
        for found in result.matching_acls:
            _check(found.error_code, found.error_message)
        gone += [
            Binding(
                _pattern(found.resource_type, found.resource_name, found.pattern_type),
                _acl(found.principal, found.host, found.operation, found.permission_type),
            )
            for found in result.matching_acls
        ]
    return sorted(gone)


def _check(code: int, message: str | None) -> None:
    if code:
        raise RequestRefused(code_of(code), message)


def _creation(binding: Binding) -> create_acls.AclCreation:
    pattern, acl = binding.pattern, binding.acl
    return create_acls.AclCreation(
        pattern.type,
        pattern.name,
        pattern.pattern,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission,
    )


def _pattern(kind: int, name: str, pattern: int) -> Pattern:
    return Pattern(_known(ResourceType, kind), name, _known(PatternType, pattern))


def _acl(principal: str, host: str, operation: int, permission: int) -> Acl:
    return Acl(principal, host, _known(Operation, operation), _known(Permission, permission))


def _known(codes: type[_Code], number: int) -> _Code:
    """The code of this number; a newer broker may have some that are UNKNOWN here."""
    try:
        return codes(number)
    except ValueError:
        return codes(0)
