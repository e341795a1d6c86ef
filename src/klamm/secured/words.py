"""The words of `klamm acls` and `Cluster.allow`: principals, operations, resources as people type.

A principal without a type is a user. Resources are written `topic:orders`, `group:billing`,
`transactional-id:x`, `token:id`, `user:User:alice`, and `cluster`; `topic:*` is every topic. Two
words stand for what a kind of client needs: `produce` and `consume`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from klamm.model.errors import Refused, UsageError
from klamm.security.authorization.acls import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    Binding,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from klamm.security.authorization.rights import SUPPORTED
from klamm.security.principals import EVERYBODY, parse_principal

_TYPES: Final[Mapping[str, ResourceType]] = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "cluster": ResourceType.CLUSTER,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "token": ResourceType.DELEGATION_TOKEN,
    "user": ResourceType.USER,
}
_WORDS: Final = {kind: word for word, kind in _TYPES.items()}
_OPERATIONS: Final[Mapping[str, Operation]] = {
    operation.name.lower().replace("_", "-"): operation
    for operation in Operation
    if operation >= Operation.ALL
}
# What each kind of client needs of each type.
_ROLES: Final[Mapping[str, Mapping[ResourceType, tuple[Operation, ...]]]] = {
    "produce": {
        ResourceType.TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
        ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
    },
    "consume": {
        ResourceType.TOPIC: (Operation.READ, Operation.DESCRIBE),
        ResourceType.GROUP: (Operation.READ,),
    },
}


def principal_of(text: str) -> str:
    """`alice` or `User:alice`, as ACLs have it; `*` is everybody."""
    if text == "*":
        return EVERYBODY
    found = parse_principal(text if ":" in text else f"User:{text}")
    if isinstance(found, Refused):
        raise UsageError(f"a principal is written alice, User:alice or '*', not {text!r}")
    return found.text


def resource_of(text: str, *, prefixed: bool = False) -> Pattern:
    """`topic:orders` and the like."""
    word, colon, name = text.partition(":")
    kind = _TYPES.get(word)
    if kind is ResourceType.CLUSTER and not colon:
        name = CLUSTER_NAME
    if kind is None or not name:
        raise UsageError(
            f"a resource is written topic:orders, group:billing, transactional-id:x, token:id, "
            f"user:User:alice or cluster, not {text!r}"
        )
    return Pattern(kind, name, PatternType.PREFIXED if prefixed else PatternType.LITERAL)


def resource_text(pattern: Pattern) -> str:
    """A resource as `resource_of` reads it."""
    word = _WORDS.get(pattern.type, pattern.type.name.lower())
    return word if pattern.type is ResourceType.CLUSTER else f"{word}:{pattern.name}"


def operation_text(operation: Operation) -> str:
    """An operation as it is typed."""
    return operation.name.lower().replace("_", "-")


def operations_of(text: str, kind: ResourceType) -> tuple[Operation, ...]:
    """The operations of `read,write`, or of a role, on a type of resource."""
    found: dict[Operation, None] = {}
    for word in filter(None, (part.strip().lower() for part in text.split(","))):
        if word in _ROLES:
            if kind not in _ROLES[word]:
                takes = " and ".join(_WORDS[one] for one in _ROLES[word])
                raise UsageError(f"{word} is about {takes}, not {_WORDS[kind]}")
            found.update(dict.fromkeys(_ROLES[word][kind]))
            continue
        operation = _OPERATIONS.get(word.replace("_", "-"))
        if operation is None:
            known = ", ".join((*_OPERATIONS, *_ROLES))
            raise UsageError(f"there is no operation {word!r}, only {known}")
        if operation is not Operation.ALL and operation not in SUPPORTED[kind]:
            had = ", ".join(operation_text(one) for one in sorted(SUPPORTED[kind]))
            raise UsageError(f"nobody can {word} a {_WORDS[kind]}: there are {had}, all")
        found[operation] = None
    if not found:
        raise UsageError("name an operation, such as read or produce")
    return tuple(found)


def line_of(binding: Binding) -> tuple[str, str, str, str, str, str]:
    """One entry as the cells of a table."""
    pattern, acl = binding.pattern, binding.acl
    return (
        resource_text(pattern),
        pattern.pattern.name.lower(),
        acl.principal,
        acl.permission.name.lower(),
        operation_text(acl.operation),
        acl.host,
    )


def json_of(binding: Binding) -> dict[str, str]:
    """One entry as JSON."""
    names = ("resource", "pattern", "principal", "permission", "operation", "host")
    return dict(zip(names, line_of(binding), strict=True))


def doubts(bindings: Iterable[Binding]) -> list[str]:
    """Entries worth a second look: for an operation that nobody asks of their type."""
    return [
        f"{operation_text(one.acl.operation)} on {resource_text(one.pattern)} has no effect: "
        "nobody asks for it"
        for one in bindings
        if one.acl.operation is not Operation.ALL
        and one.pattern.type in SUPPORTED
        and one.acl.operation not in SUPPORTED[one.pattern.type]
    ]


def bindings_of(
    principal: str,
    operations: str,
    resources: Iterable[str],
    *,
    deny: bool = False,
    prefixed: bool = False,
    host: str = WILDCARD,
) -> list[Binding]:
    """The entries that these words mean, sorted."""
    if not host:
        raise UsageError("a host is an address, or '*'")
    who, permission = principal_of(principal), Permission.DENY if deny else Permission.ALLOW
    return sorted(
        Binding(pattern, Acl(who, host, operation, permission))
        for pattern in [resource_of(text, prefixed=prefixed) for text in resources]
        for operation in operations_of(operations, pattern.type)
    )
