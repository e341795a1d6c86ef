"""Plan (private, key 1003): what the controller would do, without doing it.

Asked with one of
`{"kind": "move", "partitions": [{"topic": ..., "partition": ..., "replicas": [...] or null}]}`,
`{"kind": "elect", "election": "preferred" or "unclean", "partitions": [...] or null}`,
`{"kind": "delete", "topics": [...]}`.
Answers `moves` (subject, before, after, why), the `brokers` that would be told something, how many
`writes` the store would get, `warnings`, and what would be `refused`. What the brokers' answers
would lead to later is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from klamm.controller.effects import Plan
from klamm.controller.events import (
    ElectionsAnswer,
    ElectionsAsked,
    ElectionType,
    MarkersChanged,
    MovesAnswer,
    MovesAsked,
    PlanAsked,
)
from klamm.model.errors import ErrorCode, RequestRefused
from klamm.model.names import BrokerId, TopicPartition

if TYPE_CHECKING:
    from klamm.broker.context import RequestContext
    from klamm.broker.server import Broker


async def handle(
    broker: Broker, context: RequestContext, request: Mapping[str, Any]
) -> dict[str, Any]:
    plan = await broker.controller.submit(PlanAsked(_about(request)))
    return {
        "moves": [
            {"subject": m.subject, "before": m.before, "after": m.after, "why": m.why}
            for m in plan.moves
        ],
        "brokers": plan.brokers,
        "writes": plan.writes_count,
        "warnings": plan.warnings,
        "refused": _refused(plan),
    }


def _about(request: Mapping[str, Any]) -> MovesAsked | ElectionsAsked | MarkersChanged:
    try:
        return _read(request)
    except (KeyError, TypeError, ValueError) as fault:
        raise RequestRefused(ErrorCode.INVALID_REQUEST, f"not a plan: {fault}") from fault


def _read(request: Mapping[str, Any]) -> MovesAsked | ElectionsAsked | MarkersChanged:
    match request["kind"]:
        case "move":
            targets = {
                _partition(p): None if p["replicas"] is None else _brokers(p["replicas"])
                for p in request["partitions"]
            }
            return MovesAsked(targets)
        case "elect":
            kind = ElectionType[request.get("election", "preferred").upper()]
            wanted = request.get("partitions")
            return ElectionsAsked(
                kind, None if wanted is None else tuple(_partition(p) for p in wanted)
            )
        case "delete":
            return MarkersChanged(tuple(map(str, request["topics"])))
        case other:
            raise ValueError(f"there is no plan of kind {other!r}")


def _partition(entry: Mapping[str, Any]) -> TopicPartition:
    return TopicPartition(str(entry["topic"]), int(entry["partition"]))


def _brokers(ids: list[Any]) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(int(id)) for id in ids)


def _refused(plan: Plan) -> list[dict[str, Any]]:
    if not isinstance(plan.answer, MovesAnswer | ElectionsAnswer):
        return []
    return [
        {
            "topic": id.topic,
            "partition": id.partition,
            "error_code": fault.code,
            "error_message": fault.message,
        }
        for id, fault in plan.answer.results.items()
        if fault.code
    ]
