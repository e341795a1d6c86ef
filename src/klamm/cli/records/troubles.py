"""Tells a person why records wait, while a producer goes on trying."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

from klamm.cli.output import say
from klamm.client.aio.producer import Trouble
from klamm.model.errors import ErrorCode

# A leader that has just moved is found within this time, which nobody needs to hear of.
_PASSING_S: Final = 2.0
_ENDING_S: Final = 1.0  # what is given up by then is told by the failure itself
_PASSING: Final = frozenset(
    code.name
    for code in (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    )
) | {"it has no leader"}
_MEANINGS: Final[Mapping[str, str]] = {
    ErrorCode.KAFKA_STORAGE_ERROR.name: "the disk of its leader is full or has failed (free some "
    "space and start that broker again)",
    ErrorCode.NOT_ENOUGH_REPLICAS.name: "fewer replicas are in sync than min.insync.replicas asks "
    "for",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND.name: "fewer replicas are in sync than "
    "min.insync.replicas asks for",
}


class Telling:
    """Says each reason once, with what to do."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def hear(self, trouble: Trouble) -> None:
        """Take note of a partition that takes no records."""
        if trouble.why in self._told or trouble.gives_up_in_s < _ENDING_S:
            return
        if trouble.why in _PASSING and trouble.lasting_s < _PASSING_S:
            return
        self._told.add(trouble.why)
        why = _MEANINGS.get(trouble.why, trouble.why)
        say(
            f"klamm: {trouble.tp} takes no records: {why}; trying for {trouble.gives_up_in_s:.0f} "
            "s more (klamm status shows what is wrong)",
            to=sys.stderr,
        )
