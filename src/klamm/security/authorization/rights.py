"""Rights: one operation on one type of resource, as the code that serves a request names them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from klamm.security.authorization.acls import OPERATIONS, Operation, ResourceType

NOT_ASKED: Final = -(2**31)  # a bit field that nobody asked for


@dataclass(frozen=True, slots=True)
class Right:
    """One operation on one type of resource; its bit is at hand, for hot paths ask for it."""

    operation: Operation
    type: ResourceType
    bit: int = field(init=False, repr=False)
    type_code: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bit", 1 << self.operation)
        object.__setattr__(self, "type_code", int(self.type))

    def __str__(self) -> str:
        return f"{self.operation.name} on {self.type.name}"


def _operations(*operations: Operation) -> frozenset[Operation]:
    return frozenset(operations)


# What can be asked of each type. The broker stores other operations all the same, as Kafka does;
# tools refuse them, and a list marks them.
SUPPORTED: Final = {
    ResourceType.TOPIC: _operations(
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: _operations(Operation.READ, Operation.DELETE, Operation.DESCRIBE),
    ResourceType.CLUSTER: _operations(
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: _operations(Operation.WRITE, Operation.DESCRIBE),
    ResourceType.DELEGATION_TOKEN: _operations(Operation.DESCRIBE),
    ResourceType.USER: _operations(Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}

# The full bit field of `authorized_operations` for each type that has one.
FULL: Final = {
    kind: sum(1 << operation for operation in OPERATIONS if operation in supported)
    for kind, supported in SUPPORTED.items()
}
