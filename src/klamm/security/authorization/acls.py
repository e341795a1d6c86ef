"""Access control lists: operations, resources, entries, and the filters that find entries.

The numbers are those of the wire. An entry (`Acl`) says that a principal from a host may, or may
not, do an operation; a pattern says on what.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

CLUSTER_NAME: Final = "kafka-cluster"
WILDCARD: Final = "*"


class Operation(IntEnum):
    """The operations on a resource."""

    UNKNOWN = 0
    ANY = 1  # in filters only
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14

    @property
    def title(self) -> str:
        """The spelling in nodes and in the audit log, such as `DescribeConfigs`."""
        return self.name.title().replace("_", "")


class ResourceType(IntEnum):
    """The kinds of resources that can be protected."""

    UNKNOWN = 0
    ANY = 1  # in filters only
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7

    @property
    def title(self) -> str:
        """The spelling in paths and in the audit log, such as `TransactionalId`."""
        return self.name.title().replace("_", "")


class PatternType(IntEnum):
    """The way the name in a pattern or a filter is compared."""

    UNKNOWN = 0
    ANY = 1  # in filters only: either kind, equal name
    MATCH = 2  # in filters only: whatever would apply to the named resource
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """Whether an entry opens or closes."""

    UNKNOWN = 0
    ANY = 1  # in filters only
    DENY = 2
    ALLOW = 3


# What an entry can be about, in the order of their codes.
RESOURCE_TYPES: Final = tuple(t for t in ResourceType if t > ResourceType.ANY)
OPERATIONS: Final = tuple(o for o in Operation if o > Operation.ALL)


@dataclass(frozen=True, slots=True, order=True)
class Pattern:
    """The resources that entries hold for: one name, every name (`*`), or a beginning of names."""

    type: ResourceType
    name: str
    pattern: PatternType = PatternType.LITERAL

    def covers(self, name: str) -> bool:
        """Whether a resource of that name falls under this pattern."""
        if self.pattern is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)


@dataclass(frozen=True, slots=True, order=True)
class Acl:
    """One entry. The principal stays text, for Kafka compares it as such."""

    principal: str
    host: str
    operation: Operation
    permission: Permission

    @property
    def bits(self) -> int:
        """The operations it names, one bit each."""
        return ALL_BITS if self.operation is Operation.ALL else 1 << self.operation


@dataclass(frozen=True, slots=True, order=True)
class Binding:
    """One entry on one pattern."""

    pattern: Pattern
    acl: Acl


ALL_BITS: Final = sum(1 << operation for operation in (Operation.ALL, *OPERATIONS))


# The entries of a node that cannot be read: it might have held a denial, so nobody may anything
# there but super users, until somebody writes it anew.
UNREADABLE: Final = frozenset({Acl("User:*", WILDCARD, Operation.ALL, Permission.DENY)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A filter for bindings; None stands for any text."""

    type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def takes_pattern(self, pattern: Pattern) -> bool:
        """Whether entries of this pattern can be meant."""
        if self.type not in (pattern.type, ResourceType.ANY):
            return False
        match self.pattern:
            case PatternType.MATCH:
                return self.name is None or pattern.covers(self.name)
            case PatternType.ANY:
                return self.name in (None, pattern.name)
            case _:
                return self.pattern is pattern.pattern and self.name in (None, pattern.name)

    def takes(self, acl: Acl) -> bool:
        """Whether this entry is meant. ALL is a value here, and no wildcard."""
        return (
            self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )
