"""Whether a topic may be deleted."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from klamm.model.errors import ErrorCode, Refused
from klamm.model.names import ZERO_ID
from klamm.model.settings import BrokerSettings


@dataclass(frozen=True, slots=True)
class Doomed:
    """One entry of a request to delete topics: a name or an id."""

    name: str | None
    topic_id: uuid.UUID = ZERO_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionFacts:
    """All that the admission of a deletion may look at."""

    settings: BrokerSettings
    version: int  # of the request
    names: Mapping[uuid.UUID, str]  # by id, as the controller knows them
    visible: Collection[str]  # in this broker's metadata
    unborn: Callable[[str], bool] = lambda _: False  # without a leader so far, so in no metadata
    policy: Callable[[str], str | None] | None = None


def deletion_request_fault(asks: Iterable[Doomed], facts: DeletionFacts) -> Refused | None:
    """The reason why the whole request is refused."""
    if not facts.settings.bool("delete.topic.enable"):
        # Older clients do not know the code of its own.
        code = (
            ErrorCode.TOPIC_DELETION_DISABLED if facts.version >= 3 else ErrorCode.INVALID_REQUEST
        )
        return Refused("Topic deletion is disabled. delete.topic.enable is false.", code)
    if any(ask.name is not None and ask.topic_id != ZERO_ID for ask in asks):
        return Refused(
            "Topic name and topic ID can not both be specified.", ErrorCode.INVALID_REQUEST
        )
    return None


def admit_deletion(ask: Doomed, facts: DeletionFacts) -> str | Refused:
    """The name of the topic to mark, or the first reason not to."""
    name = ask.name if ask.name is not None else facts.names.get(ask.topic_id)
    if name is None:
        return Refused(
            f"This server does not host this topic ID. There is no topic with id {ask.topic_id}.",
            ErrorCode.UNKNOWN_TOPIC_ID,
        )
    # Kafka cannot delete a topic that never had a leader, nor create another of its name.
    if name not in facts.visible and not facts.unborn(name):
        return Refused(
            f"This server does not host this topic-partition. There is no topic {name}.",
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )
    why = facts.policy(name) if facts.policy is not None else None
    return name if why is None else Refused(why, ErrorCode.POLICY_VIOLATION)
