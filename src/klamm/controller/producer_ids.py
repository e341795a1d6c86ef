"""Blocks of producer ids for brokers to hand out (AllocateProducerIds)."""

from __future__ import annotations

from typing import Final

from klamm.controller.effects import ClaimProducerIds, Stored
from klamm.controller.events import ProducerIdsAnswer, ProducerIdsAsked
from klamm.controller.turn import ATTEMPTS_MAX, Flow, Turn, commit
from klamm.model.errors import ErrorCode
from klamm.model.topics import ProducerIdBlock

BLOCK_SIZE: Final = 1000
_ID_MAX: Final = 2**63 - 1


def producer_ids_asked(turn: Turn, event: ProducerIdsAsked) -> Flow[ProducerIdsAnswer]:
    """The next block of a thousand."""
    broker = turn.context.brokers.get(event.broker)
    if broker is None:
        return ProducerIdsAnswer(ErrorCode.BROKER_ID_NOT_REGISTERED)
    if broker.epoch != event.broker_epoch:
        return ProducerIdsAnswer(ErrorCode.STALE_BROKER_EPOCH)
    last, version = event.last, event.version
    for _ in range(ATTEMPTS_MAX):
        first = last.last + 1 if last else 0
        if first > _ID_MAX - BLOCK_SIZE:
            return ProducerIdsAnswer(ErrorCode.UNKNOWN_SERVER_ERROR)
        block = ProducerIdBlock(event.broker, first, first + BLOCK_SIZE - 1)
        (outcome,) = yield from commit([ClaimProducerIds(block, version)])
        if isinstance(outcome, Stored):
            return ProducerIdsAnswer(ErrorCode.NONE, first, BLOCK_SIZE)
        last = outcome.found if isinstance(outcome.found, ProducerIdBlock) else None
        version = outcome.version
    return ProducerIdsAnswer(ErrorCode.UNKNOWN_SERVER_ERROR)
