"""All access control lists at one moment, and what they come to for one caller.

A snapshot is never changed: a change makes the next one, which shares all that stayed. For the
decision, the entries of a pattern are folded into two bit fields (allowed, denied) a principal and
host, so that one walk over the patterns that cover a name tells every operation at once. The walk
takes the literal name, the literal `*`, and one look for each length that some prefix has; it does
not depend on how many entries there are.

A denial beats a permission, wherever either stands. Permissions imply others, denials do not: who
may read may describe, and who may not read may still describe.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from klamm.security.authorization.acls import (
    WILDCARD,
    Acl,
    Binding,
    Filter,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from klamm.security.principals import EVERYBODY

_DESCRIBE: Final = 1 << Operation.DESCRIBE
_DESCRIBE_CONFIGS: Final = 1 << Operation.DESCRIBE_CONFIGS
_ALTER_CONFIGS: Final = 1 << Operation.ALTER_CONFIGS
_IMPLY_DESCRIBE: Final = (
    1 << Operation.READ | 1 << Operation.WRITE | 1 << Operation.DELETE | 1 << Operation.ALTER
)

_Bits = tuple[int, int]  # what is allowed, what is denied
_NONE: Final[_Bits] = (0, 0)


class _Folded:
    """The entries of one pattern, as they are and as bits by principal and host."""

    __slots__ = ("acls", "bits")

    def __init__(self, acls: frozenset[Acl]) -> None:
        self.acls = acls
        bits: dict[tuple[str, str], _Bits] = {}
        for acl in acls:
            key = (acl.principal, acl.host)
            allowed, denied = bits.get(key, _NONE)
            if acl.permission is Permission.ALLOW:
                bits[key] = (allowed | acl.bits, denied)
            else:
                bits[key] = (allowed, denied | acl.bits)
        self.bits = bits


_Keys = tuple[tuple[str, str], ...]


def _keys(principal: str, host: str) -> _Keys:
    """The principals and hosts under which a caller's entries can stand."""
    names = dict.fromkeys((principal, EVERYBODY))
    hosts = dict.fromkeys((host, WILDCARD))
    return tuple((name, place) for name in names for place in hosts)


def _sum(folded: Iterable[_Folded], keys: _Keys) -> _Bits:
    allowed = denied = 0
    for one in folded:
        for key in keys:
            more_allowed, more_denied = one.bits.get(key, _NONE)
            allowed |= more_allowed
            denied |= more_denied
    return allowed, denied


def _with_implied(allowed: int) -> int:
    if allowed & _IMPLY_DESCRIBE:
        allowed |= _DESCRIBE
    if allowed & _ALTER_CONFIGS:
        allowed |= _DESCRIBE_CONFIGS
    return allowed


@dataclass(frozen=True, slots=True)
class _Shelf:
    """The patterns of one resource type."""

    literal: Mapping[str, _Folded] = field(default_factory=dict)
    prefixed: Mapping[str, _Folded] = field(default_factory=dict)
    lengths: tuple[int, ...] = ()  # of the prefixes, each once, shortest first

    def covering(self, name: str) -> Iterator[_Folded]:
        """The entries of every pattern that covers this name."""
        for literal in (name, WILDCARD) if name != WILDCARD else (WILDCARD,):
            if (found := self.literal.get(literal)) is not None:
                yield found
        yield from self.covering_prefixes(name)

    def covering_prefixes(self, name: str) -> Iterator[_Folded]:
        """The entries of the prefixed patterns that cover this name."""
        for length in self.lengths:
            if length > len(name):
                break
            if (found := self.prefixed.get(name[:length])) is not None:
                yield found


_EMPTY_SHELF: Final = _Shelf()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All entries, by pattern."""

    _shelves: Mapping[ResourceType, _Shelf] = field(default_factory=lambda: MappingProxyType({}))

    def acls(self, pattern: Pattern) -> frozenset[Acl]:
        """The entries of exactly this pattern."""
        folded = self._side(pattern).get(pattern.name)
        return folded.acls if folded else frozenset()

    def patterns(self) -> Iterator[Pattern]:
        """Every pattern that has entries."""
        for kind, shelf in self._shelves.items():
            for name in shelf.literal:
                yield Pattern(kind, name)
            for name in shelf.prefixed:
                yield Pattern(kind, name, PatternType.PREFIXED)

    def replaced(self, changes: Mapping[Pattern, Iterable[Acl]]) -> Snapshot:
        """This snapshot with the entries of some patterns replaced; none at all removes one."""
        sides: dict[tuple[ResourceType, bool], dict[str, _Folded]] = {}
        for pattern, acls in changes.items():
            key = (pattern.type, pattern.pattern is PatternType.PREFIXED)
            side = sides.get(key)
            if side is None:
                side = sides[key] = dict(self._side(pattern))
            entries = frozenset(acls)
            if entries:
                side[pattern.name] = _Folded(entries)
            else:
                side.pop(pattern.name, None)
        shelves = dict(self._shelves)
        for (kind, is_prefixed), side in sides.items():
            old = shelves.get(kind, _EMPTY_SHELF)
            if is_prefixed:
                shelves[kind] = _Shelf(old.literal, side, tuple(sorted({len(n) for n in side})))
            else:
                shelves[kind] = _Shelf(side, old.prefixed, old.lengths)
        return Snapshot(MappingProxyType(shelves))

    def found(self, wanted: Filter) -> list[Binding]:
        """The bindings that a filter means, sorted."""
        return sorted(
            Binding(pattern, acl)
            for pattern in self.patterns()
            if wanted.takes_pattern(pattern)
            for acl in self.acls(pattern)
            if wanted.takes(acl)
        )

    def operations(self, principal: str, host: str, kind: ResourceType, name: str) -> int | None:
        """The operations a caller may do on a resource, as bits; None where no pattern covers it.

        None is not 0: `allow.everyone.if.no.acl.found` speaks of resources without any entry, and
        one entry for one user ends that for everybody.
        """
        folded = list(self._shelves.get(kind, _EMPTY_SHELF).covering(name))
        if not folded:
            return None
        allowed, denied = _sum(folded, _keys(principal, host))
        return _with_implied(allowed) & ~denied

    def is_denied_everywhere(self, principal: str, host: str, kind: ResourceType, bit: int) -> bool:
        """Whether the literal `*` denies an operation on all resources of a type."""
        everything = self._shelves.get(kind, _EMPTY_SHELF).literal.get(WILDCARD)
        if everything is None:
            return False
        return bool(_sum((everything,), _keys(principal, host))[1] & bit)

    def is_allowed_somewhere(self, principal: str, host: str, kind: ResourceType, bit: int) -> bool:
        """Whether some pattern of a type allows an operation and no wider one takes it away.

        It is asked about resources that nobody has named yet, so a longer denied prefix does not
        matter, and nothing is implied.
        """
        shelf = self._shelves.get(kind, _EMPTY_SHELF)
        keys = _keys(principal, host)
        for name, folded in shelf.literal.items():
            allowed, denied = _sum((folded,), keys)
            if not allowed & bit:
                continue
            if name == WILDCARD:
                return True
            if not (denied | _sum(shelf.covering_prefixes(name), keys)[1]) & bit:
                return True
        return any(
            _sum((folded,), keys)[0] & bit
            and not _sum(shelf.covering_prefixes(name), keys)[1] & bit
            for name, folded in shelf.prefixed.items()
        )

    def deciding(
        self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> Binding | None:
        """The binding that a decision rests on: a denial where there is one, else a permission."""
        keys = frozenset(_keys(principal, host))
        applying = sorted(
            Binding(pattern, acl)
            for pattern in self.patterns()
            if pattern.type is kind and pattern.covers(name)
            for acl in self.acls(pattern)
            if (acl.principal, acl.host) in keys
        )
        bit = 1 << operation
        for one in applying:
            if one.acl.permission is Permission.DENY and one.acl.bits & bit:
                return one
        for one in applying:
            if one.acl.permission is Permission.ALLOW and _with_implied(one.acl.bits) & bit:
                return one
        return None

    def _side(self, pattern: Pattern) -> Mapping[str, _Folded]:
        shelf = self._shelves.get(pattern.type, _EMPTY_SHELF)
        return shelf.prefixed if pattern.pattern is PatternType.PREFIXED else shelf.literal


def snapshot_of(bindings: Iterable[Binding]) -> Snapshot:
    """The snapshot that has these bindings."""
    by_pattern: dict[Pattern, set[Acl]] = {}
    for binding in bindings:
        by_pattern.setdefault(binding.pattern, set()).add(binding.acl)
    return Snapshot().replaced(by_pattern)
