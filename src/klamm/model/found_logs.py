"""Facts from the logs on disk about a cluster whose store was lost."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from klamm.model.names import BrokerId, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLog:
    """One replica's log, as its directory tells."""

    broker: BrokerId
    partition: TopicPartition
    topic_id: uuid.UUID | None
    epoch: int  # of the leader that wrote its last record, -1 where there is none
    epoch_max: int  # the newest leader epoch that it knows of
    end: int  # the offset after its last whole record
    producer_id_max: int = -1
    is_compacted: bool = False

    @property
    def reach(self) -> tuple[int, int]:
        """The end of the log; the replica with the highest one has all that was acknowledged."""
        return self.epoch, self.end
