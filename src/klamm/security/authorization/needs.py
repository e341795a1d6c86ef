"""Describes what a request needs: the vocabulary of the table in `apis`.

A need is met when the caller has one of its rights. The code that serves a request names a need by
its API and its case (`topic`, `group`, `follower`), asks it for each resource, and answers a denial
as the need says. Within one request the needs are asked in the order of the table: first who stands
for all (cluster, transactional id, group), then topics, and only then whether anything exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from klamm.model.errors import ErrorCode
from klamm.security.authorization.acls import CLUSTER_NAME, Operation, ResourceType
from klamm.security.authorization.authorizer import Permissions
from klamm.security.authorization.rights import Right


class Told(StrEnum):
    """The place in the answer where a denial stands."""

    REQUEST = "request"  # one code for the whole answer
    REQUEST_AND_ITEMS = "request and items"  # the same code again in each item that was named
    ALL_PARTITIONS = "all partitions"  # every partition of the request has the code
    PARTITION = "partition"  # those of the resource; the others go on
    TOPIC = "topic"
    GROUP = "group"
    KEY = "key"  # a coordinator that was looked for
    ITEM = "item"  # one result, entry, resource or marker
    CONFIGS = "configs"  # only the settings in the answer; the work is done
    OMITTED = "omitted"  # what is not allowed is not shown, and nothing tells of it
    ZERO = "zero"  # the bit field is 0


@dataclass(frozen=True, slots=True)
class Option:
    """One right that is enough."""

    right: Right
    quiet: bool = False  # its denial is no event, because another option follows or nobody asked
    some: bool = False  # any resource of the type will do

    def is_met(self, caller: Permissions, name: str) -> bool:
        """Whether the caller has it on the resource of this name; there is only one cluster."""
        if self.some:
            return caller.allows_some(self.right)
        return caller.allows(self.right, self.name_of(name))

    def name_of(self, name: str) -> str:
        """The name of the resource that is asked about."""
        return CLUSTER_NAME if self.right.type is ResourceType.CLUSTER else name


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One check of one API, and what its denial looks like."""

    case: str
    options: tuple[Option, ...]
    code: ErrorCode | None  # None: a denial is no error
    told: Told
    low: int = 0  # the versions it holds for
    high: int = 99
    message: str | None = None
    others: ErrorCode | None = None  # the code of all items that were not refused themselves
    changes: bool = False  # whoever has it changes the cluster, and not only records

    @property
    def right(self) -> Right:
        """The right, where only one will do: for hot paths."""
        (only,) = self.options
        return only.right

    @property
    def is_for_brokers(self) -> bool:
        """Whether nobody but a broker has a reason to ask."""
        return all(o.right.operation is Operation.CLUSTER_ACTION for o in self.options)

    def is_met(self, caller: Permissions, name: str = CLUSTER_NAME) -> bool:
        """Whether the caller has one of the rights on the resource of this name."""
        return any(option.is_met(caller, name) for option in self.options)

    def loud(self) -> Option | None:
        """The option whose denial the audit log tells; None where denials are quiet."""
        return next((option for option in reversed(self.options) if not option.quiet), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """All checks of one API. Without any, every authenticated caller is served."""

    key: int
    name: str
    needs: tuple[Need, ...] = ()
    first: tuple[ErrorCode, ...] = ()  # what is answered before any permission is looked at

    def need(self, case: str, version: int = 0) -> Need:
        """The need of this case in this version."""
        for need in self.needs:
            if need.case == case and need.low <= version <= need.high:
                return need
        raise LookupError(f"{self.name} v{version} has no check called {case}")


_DENIED: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}


def option(text: str) -> Option:
    """Reads `READ TOPIC`, and `quiet` or `some` behind it."""
    operation, kind, *marks = text.split()
    assert set(marks) <= {"quiet", "some"}, text
    right = Right(Operation[operation], ResourceType[kind])
    return Option(right, quiet="quiet" in marks, some="some" in marks)


def need(
    case: str,
    rights: str,
    told: Told,
    *,
    versions: tuple[int, int] = (0, 99),
    code: ErrorCode | None = None,
    message: str | None = None,
    others: ErrorCode | None = None,
) -> Need:
    """A need for `A or B`; its code is that of the last right's type, where a denial is told."""
    options = tuple(option(text) for text in rights.split(" or "))
    is_told = told not in (Told.OMITTED, Told.ZERO)
    return Need(
        case=case,
        options=options,
        code=(code or _DENIED[options[-1].right.type]) if is_told else None,
        told=told,
        low=versions[0],
        high=versions[1],
        message=message,
        others=others,
        changes=any(option.right.operation in _CHANGING for option in options),
    )


_CHANGING: Final = frozenset(
    {
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.ALTER_CONFIGS,
        Operation.CREATE_TOKENS,
    }
)
