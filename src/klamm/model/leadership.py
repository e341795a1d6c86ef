"""Who leads a partition, and who follows closely enough to take over."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from klamm.model.names import NO_LEADER, BrokerId


class Recovery(IntEnum):
    """Whether a leader that was elected uncleanly has already settled what was lost."""

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

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER
