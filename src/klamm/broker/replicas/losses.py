"""Decides whether a log has less than the cluster counts on.

A log that is gone, or was cut while its broker was away, must not come back as an empty one that is
held to have everything: then the broker says that it has lost it, and another one leads.
"""

from __future__ import annotations

from klamm.broker.ground import Ground
from klamm.broker.storage.logs import Logs
from klamm.model.errors import ErrorCode
from klamm.model.leadership import Recovery
from klamm.model.names import BrokerId, TopicPartition
from klamm.protocol.messages.leader_and_isr import LeaderAndIsrPartitionState as PartitionState


class Losses:
    """Compares what a controller orders with the logs that are there."""

    def __init__(self, ground: Ground, logs: Logs, topics_at_start: frozenset[str]) -> None:
        self._ground = ground
        self._logs = logs
        self._topics_at_start = topics_at_start  # that were there before this broker

    def is_lost(self, topic_partition: TopicPartition, state: PartitionState) -> bool:
        """Whether a log that is not there is one that the cluster counts on."""
        if not self._is_counted_on(state):
            return False
        if self._logs.missed_end(topic_partition) is not None:
            return self._may_give_way(state)
        # Under the first epoch it may be that its leader has never been told, and there was never
        # a log: not where the disk is another one than when the topic was made.
        was_here = state.leader_epoch > 0 or (
            self._logs.any_new and topic_partition.topic in self._topics_at_start
        )
        return was_here and self.remembers_disk

    def is_shortened(self, topic_partition: TopicPartition, state: PartitionState) -> bool:
        """Whether a log has less than the cluster counts on, for it was cut while we were away."""
        is_short = self._logs.missed_end(topic_partition) is not None
        return is_short and self._is_counted_on(state) and self._may_give_way(state)

    def _is_counted_on(self, state: PartitionState) -> bool:
        """Whether this replica is held to have everything.

        After an unclean election what is lost has been given up.
        """
        is_recovered = state.leader_recovery_state == Recovery.RECOVERED
        return not state.is_new and is_recovered and self._ground.id in state.isr

    def _may_give_way(self, state: PartitionState) -> bool:
        """Whether another has it all, or it is to be waited for what was lost here."""
        return len(state.isr) > 1 or self.remembers_disk

    @property
    def remembers_disk(self) -> bool:
        """Whether an election waits for what was lost with a disk."""
        return self._ground.settings.bool("klamm.election.remember.disk")

    async def code_for(self, controller: BrokerId) -> ErrorCode:
        """The code for a log that the cluster counts on and that is not here.

        A controller of klamm knows what to do about it; one of Kafka looks for the code of a failed
        disk alone, and with that it elects another or waits.
        """
        if controller in await self._ground.foreigners.found():
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.LOG_DIR_NOT_FOUND
