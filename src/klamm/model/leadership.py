"""The leader of a partition, and the replicas that are in sync with it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from klamm.model.names import BrokerId


class Recovery(IntEnum):
    """Whether a leader that was elected uncleanly has already cut what was lost."""

    RECOVERED = 0
    RECOVERING = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """The content of a partition's state node."""

    leader: BrokerId
    leader_epoch: int
    isr: tuple[BrokerId, ...]
    controller_epoch: int  # of the controller that made this decision
    partition_epoch: int = 0  # the version of the state node
    recovery: Recovery = Recovery.RECOVERED

    def succeeded_by(
        self,
        leader: BrokerId,
        isr: tuple[BrokerId, ...],
        controller_epoch: int,
        recovery: Recovery | None = None,
    ) -> Leadership:
        """The leadership after a controller's decision; None leaves the recovery as it is.

        The leader epoch rises even when the same broker leads on: it is how brokers refuse a
        request that was meant for the leadership before.
        """
        return Leadership(
            leader=leader,
            leader_epoch=self.leader_epoch + 1,
            isr=isr,
            controller_epoch=controller_epoch,
            partition_epoch=self.partition_epoch + 1,
            recovery=self.recovery if recovery is None else recovery,
        )
