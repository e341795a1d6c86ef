"""Runs the table of topics: plan a transition, enter it into the ledger, change memory.

Nothing else sets a topic's state, or says which topics are on their way out.
"""

from __future__ import annotations

from typing import Final

from klamm.controller.context import Context, QueuedDeletion, Topic
from klamm.controller.states import FOUND, ReplicaState, TopicState, topic_states
from klamm.controller.states.topic_states import TopicView
from klamm.controller.turn import Turn
from klamm.model.errors import Refused

IS_MOVING: Final = "a partition is being moved"
IS_OFFLINE: Final = "a replica is offline"

_ALIVE: Final = frozenset({TopicState.CREATED, TopicState.FROZEN, TopicState.IMPORTING})


def move_topic(turn: Turn, topic: Topic, target: TopicState, why: str = "") -> Refused | None:
    """Move a topic to a state; returns why it could not be moved."""
    step = topic_states.plan(_view(turn, topic, why), target)
    if isinstance(step, Refused):
        return step
    context, name = turn.context, topic.name
    turn.note(f"topic {name}", name, topic.state, target, step.why)
    topic.state = target
    if target is TopicState.QUEUED:
        context.deletions[name] = QueuedDeletion(context.now_ms)
    elif target in _ALIVE:
        context.deletions.pop(name, None)
    elif target is TopicState.ABSENT:
        context.remove_topic(name)
    deletion = context.deletions.get(name)
    if deletion is not None:
        deletion.halted = step.why if target is TopicState.HALTED else None
    return None


def find_topic(turn: Turn, topic: Topic, *, is_marked: bool) -> None:
    """Take up a topic where a new controller finds it: as its node, settings and marker say.

    Of one that just serves, which is nearly every one, the ledger needs no word.
    """
    topic.state = TopicState.QUEUED if is_marked else alive_state(topic)
    if is_marked:
        turn.context.deletions[topic.name] = QueuedDeletion(turn.context.now_ms, inherited=True)
    if topic.state is not TopicState.CREATED:
        turn.note(f"topic {topic.name}", topic.name, FOUND, topic.state)


def alive_state(topic: Topic) -> TopicState:
    """The state of a topic that nobody is deleting."""
    if topic.importing:
        return TopicState.IMPORTING
    return TopicState.FROZEN if topic.frozen else TopicState.CREATED


def obstacle(turn: Turn, topic: Topic) -> str | None:
    """The reason why a deletion must not start yet. Once logs are removed, nothing stops it."""
    context = turn.context
    if context.deletions[topic.name].started:
        return None
    if context.is_reassigning(topic.name):
        return IS_MOVING
    if turn.settings.deletion_cancellable and context.absentees(topic.name):
        # It could not be completed now, and while every log is there it can be called off.
        return IS_OFFLINE
    return None


def _view(turn: Turn, topic: Topic, why: str) -> TopicView:
    context = turn.context
    deletion = context.deletions.get(topic.name)
    if deletion is None:
        return TopicView(
            name=topic.name, state=topic.state, reason=why, is_renamed=topic.is_renamed
        )
    return TopicView(
        name=topic.name,
        state=topic.state,
        reason=why,
        obstacle=obstacle(turn, topic),
        loss=loss(context, topic),
        is_vanished=deletion.vanished,
        is_removed=deletion.removed,
        given_up=tuple(deletion.given_up),
    )


def loss(context: Context, topic: Topic) -> str | None:
    """The damage that a deletion has done, as far as is known; None if it can be undone."""
    deletion = context.deletions[topic.name]
    if deletion.started:
        return "has lost logs already"
    if any(
        state is ReplicaState.DELETION_SUCCESSFUL
        for partition in topic.partitions.values()
        for state in partition.replica_states.values()
    ):
        return "has copies that were given up"
    if deletion.inherited and not _is_led(context, topic):
        return "may have lost logs under an earlier controller"
    return None


def _is_led(context: Context, topic: Topic) -> bool:
    return all(
        p.leadership is not None and context.is_online(p.leadership.leader, p.id)
        for p in topic.partitions.values()
    )
