"""Maps each kind of event to the state of the controller, in Kafka's numbers and names."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from klamm.broker.term import observing
from klamm.controller import events


class ControllerState(IntEnum):
    """Kafka's states, by the numbers of its gauge ControllerState."""

    IDLE = 0
    CONTROLLER_CHANGE = 1
    BROKER_CHANGE = 2
    TOPIC_CHANGE = 3
    TOPIC_DELETION = 4
    ALTER_PARTITION_REASSIGNMENT = 5
    AUTO_LEADER_BALANCE = 6
    MANUAL_LEADER_BALANCE = 7
    CONTROLLED_SHUTDOWN = 8
    ISR_CHANGE = 9
    LEADER_AND_ISR_RESPONSE_RECEIVED = 10
    LOG_DIR_CHANGE = 11
    UNCLEAN_LEADER_ELECTION_ENABLE = 13
    TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE = 14
    LIST_PARTITION_REASSIGNMENT = 15

    @property
    def timer(self) -> str:
        """The name of Kafka's timer `<name>RateAndTimeMs`; two of them say what the time is for."""
        return _TIMERS.get(self) or self.name.title().replace("_", "")


_S = ControllerState
_TIMERS: Final[Mapping[_S, str]] = {
    _S.BROKER_CHANGE: "LeaderElection",
    _S.ALTER_PARTITION_REASSIGNMENT: "PartitionReassignment",
}
# Events that Kafka does not have are filed under what they are about.
STATES: Final[Mapping[type, _S]] = {
    events.TermBegan: _S.CONTROLLER_CHANGE,
    observing.BrokersHint: _S.BROKER_CHANGE,
    events.BrokersChanged: _S.BROKER_CHANGE,
    events.BrokerUnreachable: _S.BROKER_CHANGE,
    events.BrokerReached: _S.BROKER_CHANGE,
    observing.TopicsHint: _S.TOPIC_CHANGE,
    observing.TopicHint: _S.TOPIC_CHANGE,
    observing.AllTopicsHint: _S.TOPIC_CHANGE,
    events.TopicsChanged: _S.TOPIC_CHANGE,
    events.TopicModified: _S.TOPIC_CHANGE,
    events.FreezeSwitched: _S.TOPIC_CHANGE,
    events.ImportSwitched: _S.TOPIC_CHANGE,
    observing.MarkersHint: _S.TOPIC_DELETION,
    events.MarkersChanged: _S.TOPIC_DELETION,
    events.StopReplicaAnswered: _S.TOPIC_DELETION,
    events.ReplicaGivenUp: _S.TOPIC_DELETION,
    events.DeletionCancelled: _S.TOPIC_DELETION,
    events.TopicArchived: _S.TOPIC_DELETION,
    events.SwapAsked: _S.TOPIC_CHANGE,
    events.RetryDue: _S.TOPIC_DELETION,
    observing.ReassignmentsHint: _S.ALTER_PARTITION_REASSIGNMENT,
    events.ReassignmentsRequested: _S.ALTER_PARTITION_REASSIGNMENT,
    events.ReassignmentsAsked: _S.ALTER_PARTITION_REASSIGNMENT,
    events.RebalanceDue: _S.AUTO_LEADER_BALANCE,
    observing.ElectionsHint: _S.MANUAL_LEADER_BALANCE,
    events.ElectionsRequested: _S.MANUAL_LEADER_BALANCE,
    events.ElectionsAsked: _S.MANUAL_LEADER_BALANCE,
    events.ShutdownAsked: _S.CONTROLLED_SHUTDOWN,
    events.IsrChangesAsked: _S.ISR_CHANGE,
    observing.IsrChangesHint: _S.ISR_CHANGE,
    events.IsrChangesNoticed: _S.ISR_CHANGE,
    events.LeaderAndIsrAnswered: _S.LEADER_AND_ISR_RESPONSE_RECEIVED,
    observing.LogDirsHint: _S.LOG_DIR_CHANGE,
    events.LogDirFailed: _S.LOG_DIR_CHANGE,
    events.ReassignmentsListed: _S.LIST_PARTITION_REASSIGNMENT,
}


def state_of(content: observing.Hint | events.Event) -> ControllerState:
    """The state of a controller that works on this; questions leave it idle."""
    if isinstance(content, events.UncleanSwitched):
        for_all = content.topic is None
        own = _S.TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE
        return _S.UNCLEAN_LEADER_ELECTION_ENABLE if for_all else own
    return STATES.get(type(content), _S.IDLE)
