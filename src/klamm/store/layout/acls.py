"""Access control lists in the store, and the nodes that announce their changes.

Literal patterns and prefixed ones have trees of their own, as in Kafka, because brokers before 2.0
know only the first. A node has all entries of its pattern; the version of the node is what a writer
names. An announcement has no content: who sees it reads the node.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from klamm.security.authorization.acls import (
    RESOURCE_TYPES,
    Acl,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from klamm.store.layout.jsontext import dump, load, or_none

ACLS: Final = "/kafka-acl"
PREFIXED_ACLS: Final = "/kafka-acl-extended/prefixed"
ACL_CHANGES: Final = "/kafka-acl-changes"
ACL_CHANGE_PREFIX: Final = "/kafka-acl-changes/acl_changes_"
EXTENDED_ACL_CHANGES: Final = "/kafka-acl-extended-changes"
EXTENDED_ACL_CHANGE_PREFIX: Final = "/kafka-acl-extended-changes/acl_changes_"

# What a broker with an authorizer makes sure of when it starts; their parents come with them.
ACL_ROOTS: Final = (
    *(f"{ACLS}/{kind.title}" for kind in RESOURCE_TYPES),
    *(f"{PREFIXED_ACLS}/{kind.title}" for kind in RESOURCE_TYPES),
    ACL_CHANGES,
    EXTENDED_ACL_CHANGES,
)

_TYPES: Final = {kind.title: kind for kind in RESOURCE_TYPES}
_TYPES_IN_CHANGES: Final = {kind.name: kind for kind in RESOURCE_TYPES}
# Written with capitals inside; Kafka's own reader takes the spelling of its enums as well.
_OPERATIONS: Final = {
    text: operation
    for operation in Operation
    if operation >= Operation.ALL
    for text in (operation.title, operation.title.upper(), operation.name)
}
_PERMISSIONS: Final = {
    text: permission
    for permission in (Permission.ALLOW, Permission.DENY)
    for text in (permission.name.title(), permission.name)
}


def acl_path(pattern: Pattern) -> str:
    """The node with the entries of a pattern."""
    root = PREFIXED_ACLS if pattern.pattern is PatternType.PREFIXED else ACLS
    return f"{root}/{pattern.type.title}/{pattern.name}"


def acl_type(name: str) -> ResourceType | None:
    """The type that a node below one of the roots stands for; None for one that nobody knows."""
    return _TYPES.get(name)


def encode_acls(acls: Iterable[Acl]) -> bytes:
    """Version 1. The order means nothing; sorted, equal lists are equal bytes."""
    entries = [
        {
            "principal": acl.principal,
            "permissionType": acl.permission.name.title(),
            "operation": acl.operation.title,
            "host": acl.host,
        }
        for acl in sorted(acls)
    ]
    return dump({"version": 1, "acls": entries})


@or_none
def decode_acls(data: bytes | None) -> frozenset[Acl]:
    """The entries of a node. One that is not understood spoils the node: it might be a denial."""
    fields = load(data)
    if fields["version"] != 1:
        raise ValueError("lists of another version")
    return frozenset(
        Acl(
            str(entry["principal"]),
            str(entry["host"]),
            _OPERATIONS[entry["operation"]],
            _PERMISSIONS[entry["permissionType"]],
        )
        for entry in fields["acls"]
    )


def acl_change(pattern: Pattern) -> tuple[str, bytes]:
    """The prefix of the sequential node that announces a change of a pattern, and its data."""
    if pattern.pattern is PatternType.LITERAL:
        return ACL_CHANGE_PREFIX, f"{pattern.type.name}:{pattern.name}".encode()
    return EXTENDED_ACL_CHANGE_PREFIX, dump(
        {
            "version": 1,
            "resourceType": pattern.type.name,
            "name": pattern.name,
            "patternType": pattern.pattern.name,
        }
    )


@or_none
def decode_acl_change(data: bytes | None) -> Pattern:
    """The literal pattern that an announcement names."""
    kind, colon, name = (data or b"").decode().partition(":")
    if not colon or not name:
        raise ValueError("not an announcement")
    # Kafka before 2.0 wrote the spelling of paths here.
    return Pattern(_TYPES_IN_CHANGES.get(kind) or _TYPES[kind], name)


@or_none
def decode_extended_acl_change(data: bytes | None) -> Pattern:
    """The pattern that an extended announcement names."""
    fields = load(data)
    if fields["version"] != 1:
        raise ValueError("an announcement of another version")
    pattern = PatternType[fields["patternType"]]
    if pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise ValueError("not the type of a pattern")
    return Pattern(_TYPES_IN_CHANGES[fields["resourceType"]], str(fields["name"]), pattern)
