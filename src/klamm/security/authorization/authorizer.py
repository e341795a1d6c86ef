"""The decision: may this caller do that?

A `Caller` is a principal at an address; a connection asks for its own once and keeps it. What a
caller may do on a resource is worked out once and remembered as bits until the lists change, so
that the question on a hot path is two looks into dictionaries. What is remembered is bounded over
all callers together, since names come from strangers: when it is full, all of it is forgotten.

With no authorizer everybody may do everything (`OPEN`). Somebody else's rules are a callable, asked
each time (`Asked`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol
from weakref import WeakValueDictionary

from klamm.security.authorization.acls import ALL_BITS, OPERATIONS, Binding, ResourceType
from klamm.security.authorization.rights import FULL, Right
from klamm.security.authorization.snapshot import Snapshot
from klamm.security.principals import Principal

_REMEMBERED_MAX: Final = 65_536
# A topic has no longer name. Groups may; who has one asks at full price.
_NAME_SIZE_MAX: Final = 249


class Permissions(Protocol):
    """The permissions of one caller."""

    def allows(self, right: Right, name: str) -> bool:
        """Whether the caller has this right on the resource of this name."""
        ...

    def allows_some(self, right: Right) -> bool:
        """Whether the caller has this right on at least some resource of the type."""
        ...

    def operations(self, kind: ResourceType, name: str) -> int:
        """The bit field `authorized_operations` of a resource."""
        ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision and what it rests on."""

    allowed: bool
    why: str
    binding: Binding | None = None


class _Open:
    """Everything is allowed, for no authorizer is configured."""

    __slots__ = ()

    def allows(self, right: Right, name: str) -> bool:
        return True

    def allows_some(self, right: Right) -> bool:
        return True

    def operations(self, kind: ResourceType, name: str) -> int:
        return FULL[kind]


OPEN: Final[Permissions] = _Open()


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The question to a foreign authorizer; a name of None asks for some resource of the type."""

    principal: Principal
    host: str
    right: Right
    name: str | None


@dataclass(frozen=True, slots=True)
class Asked:
    """A caller whose rights somebody else's callable decides. Only a plain True is a yes."""

    decide: Callable[[Question], bool]
    principal: Principal
    host: str

    def allows(self, right: Right, name: str) -> bool:
        return self._ask(right, name)

    def allows_some(self, right: Right) -> bool:
        return self._ask(right, None)

    def operations(self, kind: ResourceType, name: str) -> int:
        full = FULL[kind]
        return sum(
            1 << operation
            for operation in OPERATIONS
            if full >> operation & 1 and self._ask(Right(operation, kind), name)
        )

    def _ask(self, right: Right, name: str | None) -> bool:
        question = Question(principal=self.principal, host=self.host, right=right, name=name)
        return self.decide(question) is True


class _Memory:
    """The rights that were worked out for one principal at one address."""

    __slots__ = ("__weakref__", "by_type")

    def __init__(self) -> None:
        # By the code of the resource type, then by name.
        self.by_type: tuple[dict[str, int], ...] = tuple({} for _ in ResourceType)

    def clear(self) -> None:
        for names in self.by_type:
            names.clear()


class Authorizer:
    """Kafka's AclAuthorizer: super users, lists, and a rule for what no list speaks of."""

    __slots__ = (
        "_allow_everyone",
        "_is_loaded",
        "_memories",
        "_remembered",
        "_snapshot",
        "_super_users",
    )

    def __init__(
        self,
        *,
        super_users: frozenset[Principal] = frozenset(),
        allow_everyone: bool = False,
        snapshot: Snapshot | None = None,
    ) -> None:
        self._super_users = super_users
        self._allow_everyone = allow_everyone
        self._snapshot = snapshot or Snapshot()
        # Before the lists are there, nobody can know that none speaks of a resource.
        self._is_loaded = snapshot is not None
        # Shared by the connections of one caller, and gone with the last of them.
        self._memories: WeakValueDictionary[tuple[Principal, str], _Memory] = WeakValueDictionary()
        self._remembered = 0

    @property
    def snapshot(self) -> Snapshot:
        """The lists that hold now."""
        return self._snapshot

    def replace(self, snapshot: Snapshot) -> None:
        """Other lists hold from now on, for connections that are open as well."""
        self._snapshot = snapshot
        self._is_loaded = True
        self._forget()

    def caller(self, principal: Principal, host: str) -> Permissions:
        """The permissions of this principal at this address, now and after changes."""
        memory = self._memories.get((principal, host))
        if memory is None:
            memory = self._memories[principal, host] = _Memory()
        return _Caller(self, principal, host, memory)

    def is_super(self, principal: Principal) -> bool:
        """Whether rules do not hold for this principal."""
        return principal in self._super_users

    def verdict(self, principal: Principal, host: str, right: Right, name: str) -> Verdict:
        """The decision with its reason, for people; it costs a walk over all lists."""
        bits = self._work_out(principal, host, right.type, name)
        allowed = bool(bits & right.bit)
        if self.is_super(principal):
            return Verdict(True, "super.users names this principal")
        if self._snapshot.operations(principal.text, host, right.type, name) is None:
            word = "true" if self._is_open else "false"
            return Verdict(
                allowed, f"no ACL speaks of it, and allow.everyone.if.no.acl.found is {word}"
            )
        binding = self._snapshot.deciding(principal.text, host, right.operation, right.type, name)
        if binding is None:
            return Verdict(allowed, "there are ACLs for it, and none allows this caller")
        return Verdict(allowed, "an ACL says so", binding)

    def bits(
        self, principal: Principal, host: str, memory: _Memory, kind: ResourceType, name: str
    ) -> int:
        """The operations allowed on one resource, remembered for the next question."""
        bits = self._work_out(principal, host, kind, name)
        if len(name) <= _NAME_SIZE_MAX:
            if self._remembered >= _REMEMBERED_MAX:
                self._forget()
            self._remembered += 1
            memory.by_type[kind][name] = bits
        return bits

    def some(self, principal: Principal, host: str, right: Right) -> bool:
        """Whether the right is there for some resource of its type."""
        if principal in self._super_users:
            return True
        asked = (principal.text, host, right.type, right.bit)
        if self._snapshot.is_denied_everywhere(*asked):
            return False
        return self._is_open or self._snapshot.is_allowed_somewhere(*asked)

    @property
    def _is_open(self) -> bool:
        """Whether everybody may do everything to what no list speaks of."""
        return self._allow_everyone and self._is_loaded

    def _work_out(self, principal: Principal, host: str, kind: ResourceType, name: str) -> int:
        if principal in self._super_users:
            return ALL_BITS
        found = self._snapshot.operations(principal.text, host, kind, name)
        if found is None:
            return ALL_BITS if self._is_open else 0
        return found

    def _forget(self) -> None:
        for memory in list(self._memories.values()):
            memory.clear()
        self._remembered = 0


class _Caller:
    """A principal at an address, before the lists of an authorizer."""

    __slots__ = ("_authorizer", "_by_type", "_host", "_memory", "_principal")

    def __init__(
        self, authorizer: Authorizer, principal: Principal, host: str, memory: _Memory
    ) -> None:
        self._authorizer = authorizer
        self._principal = principal
        self._host = host
        self._memory = memory
        self._by_type = memory.by_type

    def allows(self, right: Right, name: str) -> bool:
        bits = self._by_type[right.type_code].get(name)
        if bits is None:
            bits = self._bits(right.type, name)
        return bits & right.bit != 0

    def allows_some(self, right: Right) -> bool:
        return self._authorizer.some(self._principal, self._host, right)

    def operations(self, kind: ResourceType, name: str) -> int:
        bits = self._by_type[kind].get(name)
        if bits is None:
            bits = self._bits(kind, name)
        return bits & FULL[kind]

    def _bits(self, kind: ResourceType, name: str) -> int:
        return self._authorizer.bits(self._principal, self._host, self._memory, kind, name)
