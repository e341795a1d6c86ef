"""Plans CreateAcls and DeleteAcls: checked entries, and the new content of each pattern.

Requests carry numbers. Code 0 is nonsense in any place; other numbers that nobody knows spoil one
creation, or make a filter that finds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeVar

from klamm.model.errors import ErrorCode, ProtocolError, Refused
from klamm.security.authorization.acls import (
    CLUSTER_NAME,
    Acl,
    Binding,
    Filter,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from klamm.security.authorization.snapshot import Snapshot
from klamm.security.principals import parse_principal

_FAILED: Final = "Failed to create ACL"
_Code = TypeVar("_Code", bound=IntEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """One creation, as the request has it."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


@dataclass(frozen=True, slots=True)
class Change:
    """The new content of patterns. Each is written under the version that it was read with."""

    contents: Mapping[Pattern, frozenset[Acl]]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""
        return not self.contents

    def differing(self, snapshot: Snapshot) -> list[Pattern]:
        """The patterns that really change: only those are announced to other brokers."""
        return [p for p, acls in self.contents.items() if acls != snapshot.acls(p)]


@dataclass(frozen=True, slots=True)
class Creations:
    """An outcome for each creation, in order (None: done), and what is to be written."""

    outcomes: tuple[Refused | None, ...]
    change: Change
    bindings: tuple[Binding | None, ...] = ()  # those that are wanted, in order


@dataclass(frozen=True, slots=True)
class Deletions:
    """The bindings that each filter deletes, in order, and what is to be written."""

    deleted: tuple[tuple[Binding, ...], ...]
    change: Change


def filter_of(
    *,
    resource_type: int,
    resource_name: str | None,
    pattern_type: int,
    principal: str | None,
    host: str | None,
    operation: int,
    permission: int,
) -> Filter:
    """The filter of a request; ProtocolError where a code is 0."""
    return Filter(
        type=_known(ResourceType, resource_type),
        name=resource_name,
        pattern=_known(PatternType, pattern_type),
        principal=principal,
        host=host,
        operation=_known(Operation, operation),
        permission=_known(Permission, permission),
    )


def plan_creations(snapshot: Snapshot, creations: Sequence[Creation]) -> Creations:
    """Checks creations; one that no filter could be refuses all of them, as in Kafka."""
    checked = [_check(creation) for creation in creations]
    fatal = next((c for c in checked if isinstance(c, Refused) and c.code is _UNKNOWN), None)
    if fatal is not None:
        return Creations((fatal,) * len(checked), Change({}), (None,) * len(checked))
    outcomes = tuple(c if isinstance(c, Refused) else None for c in checked)
    wanted = [c for c in checked if isinstance(c, Binding)]
    contents: dict[Pattern, frozenset[Acl]] = {}
    for binding in wanted:
        held = contents.get(binding.pattern, snapshot.acls(binding.pattern))
        contents[binding.pattern] = held | {binding.acl}
    bindings = tuple(c if isinstance(c, Binding) else None for c in checked)
    return Creations(outcomes, Change(contents), bindings)


def plan_deletions(snapshot: Snapshot, filters: Iterable[Filter]) -> Deletions:
    """Finds what filters mean; a binding that two filters mean is reported under the first."""
    gone: dict[Binding, None] = {}
    deleted = []
    for one in filters:
        found = tuple(binding for binding in snapshot.found(one) if binding not in gone)
        gone.update(dict.fromkeys(found))
        deleted.append(found)
    by_pattern: dict[Pattern, set[Acl]] = {}
    for binding in gone:
        by_pattern.setdefault(binding.pattern, set()).add(binding.acl)
    contents = {pattern: snapshot.acls(pattern) - acls for pattern, acls in by_pattern.items()}
    return Deletions(tuple(deleted), Change(contents))


def grouped(bindings: Iterable[Binding]) -> dict[Pattern, list[Acl]]:
    """Bindings by pattern, as DescribeAcls answers."""
    groups: dict[Pattern, list[Acl]] = {}
    for binding in bindings:
        groups.setdefault(binding.pattern, []).append(binding.acl)
    return groups


_UNKNOWN: Final = ErrorCode.UNKNOWN_SERVER_ERROR


def _check(creation: Creation) -> Binding | Refused:
    kind = _known(ResourceType, creation.resource_type)
    pattern = _known(PatternType, creation.pattern_type)
    operation = _known(Operation, creation.operation)
    permission = _known(Permission, creation.permission)
    if 0 in (kind, pattern, operation, permission):
        return Refused(_FAILED)
    if 1 in (kind, pattern, operation, permission) or pattern is PatternType.MATCH:
        return Refused(f"{_FAILED}: ANY and MATCH are for filters only", _UNKNOWN)
    principal = parse_principal(creation.principal)
    if isinstance(principal, Refused):
        return Refused(principal.why, _UNKNOWN)
    name = creation.resource_name
    if kind is ResourceType.CLUSTER and name != CLUSTER_NAME:
        return Refused(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not name:
        return Refused("Invalid empty resource name")
    if not creation.host:
        return Refused(f"{_FAILED}: the host is empty. Write an address, or * for every one")
    if "/" in name or "\0" in name or name in (".", ".."):
        # The name becomes that of a node in the store.
        return Refused(_FAILED)
    acl = Acl(principal.text, creation.host, operation, permission)
    return Binding(Pattern(kind, name, pattern), acl)


def _known(codes: type[_Code], number: int) -> _Code:
    """The code with this number, UNKNOWN where there is none; 0 itself is refused."""
    if number == 0:
        raise ProtocolError(f"{codes.__name__} 0 in a request about ACLs means nothing")
    try:
        return codes(number)
    except ValueError:
        return codes(0)
