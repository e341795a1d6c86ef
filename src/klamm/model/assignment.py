"""Assigns partitions to brokers, with the algebra of reassignment (KIP-455)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from klamm.model.names import BrokerId


@dataclass(frozen=True, slots=True)
class Assignment:
    """The replicas of one partition; the first is the preferred leader.

    While a partition moves, `replicas` is where it goes and where it is, target first.
    """

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()

    @property
    def origin(self) -> tuple[BrokerId, ...]:
        return _without(self.replicas, self.adding)

    @property
    def target(self) -> tuple[BrokerId, ...]:
        return _without(self.replicas, self.removing) if self.removing else self.replicas

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding or self.removing)

    def towards(self, target: Sequence[BrokerId]) -> Assignment:
        """The assignment that starts a move to `target`; a running move keeps its true origin."""
        origin = self.origin
        full = tuple(dict.fromkeys((*target, *origin)))
        return Assignment(full, _without(full, origin), _without(full, target))

    def without(self, broker: BrokerId) -> Assignment:
        """The assignment after one replica is gone for good."""
        gone = (broker,)
        return Assignment(
            _without(self.replicas, gone),
            _without(self.adding, gone),
            _without(self.removing, gone),
        )


def _without(brokers: Sequence[BrokerId], left_out: Iterable[BrokerId]) -> tuple[BrokerId, ...]:
    out = frozenset(left_out)
    return tuple(broker for broker in brokers if broker not in out)
