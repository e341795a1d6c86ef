"""Explain (private, key 1001): what a topic is waiting for, as the controller sees it.

Asked with `{"topic": name}`; answers `waiting`, one object for each reason: what is held up, the
partition, the broker, why, until when, and since when, where the ledger knows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from klamm.controller.events import ExplanationAsked
from klamm.model.errors import ErrorCode

if TYPE_CHECKING:
    from klamm.broker.context import RequestContext
    from klamm.broker.server import Broker


async def handle(
    broker: Broker, context: RequestContext, request: Mapping[str, Any]
) -> dict[str, Any]:
    topic = str(request.get("topic", ""))
    waiting = await broker.controller.submit(ExplanationAsked(topic))
    if waiting is None:
        return {
            "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "error_message": f"there is no topic {topic}",
        }
    latest = await broker.in_worker(lambda: _last_moves(broker, topic))
    return {
        "error_code": ErrorCode.NONE,
        "waiting": [
            {
                "what": reason.what,
                "partition": reason.partition,
                "broker": reason.broker,
                "why": reason.why,
                "until": reason.until,
                "since_ms": _since_ms(latest, topic, reason.partition, reason.broker),
            }
            for reason in waiting
        ],
    }


def _last_moves(broker: Broker, topic: str) -> dict[object, object]:
    """When each subject of the topic last moved."""
    return {entry["subject"]: entry["time_ms"] for entry in broker.controller.story(topic)}


def _since_ms(
    latest: Mapping[object, object], topic: str, partition: int, broker: int | None
) -> object:
    name = f"{topic}-{partition}"
    replica = f"{name} on broker {broker}"
    return latest.get(replica) or latest.get(name) or latest.get(f"topic {topic}")
