"""Plan (private, key 1003): what the controller would do, without doing it.

Asked with one of
`{"kind": "create", "topics": [{"name": ..., "partitions": n, "replication_factor": n,
"assignment": [[id, ...], ...] or null, "configs": {...}}]}`,
`{"kind": "grow", "topic": ..., "partitions": total, "assignment": [[...]] or null}`,
`{"kind": "delete", "topics": [...]}`,
`{"kind": "move", "partitions": [{"topic": ..., "partition": ..., "replicas": [...] or null}]}`,
`{"kind": "elect", "election": "preferred" or "unclean", "partitions": [...] or null}`.

Answers `moves`, the transitions that would come at once, and `later`, those that would follow once
brokers have done as they were told (subject, before, after, why); the `brokers` that would be told
something, how many `writes` the store would get, the `copies` and `removals` of logs with their
bytes, `warnings`, and what would be `refused`. A size is null where its broker does not answer.
Lists of moves are cut at `limit`; `moves_count` and `later_count` tell how long they are.

Where new partitions go is left to chance unless klamm.placement.seed is set, so the real thing may
start at another broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from klamm.broker.admin.topic_admin import Created
from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.broker.quotas.quotas import QuotaClient
from klamm.broker.storage.log_sizes import log_sizes
from klamm.controller.admission import Growth, NewTopic
from klamm.controller.effects import PlannedEffects, Transition
from klamm.controller.events import (
    ElectionsAnswer,
    ElectionsAsked,
    ElectionType,
    MarkersChanged,
    PlanAsked,
    Plannable,
    ReassignmentsAnswer,
    ReassignmentsAsked,
    TopicModified,
    TopicsChanged,
)
from klamm.model.assignment import Assignment
from klamm.model.errors import ErrorCode, Refused, RequestRefused
from klamm.model.names import BrokerId, Replica, TopicPartition
from klamm.model.topics import StoredTopic
from klamm.protocol.private import PrivateKey
from klamm.security.authorization.apis import need_of

_CLUSTER: Final = need_of(PrivateKey.PLAN, "cluster")

_LIMIT: Final = 1_000
Refusals = list[dict[str, Any]]


async def handle(
    parts: Parts, context: RequestContext, request: Mapping[str, Any]
) -> dict[str, Any]:
    parts.access.demand(context, _CLUSTER)
    if not parts.is_controller:
        raise RequestRefused(ErrorCode.NOT_CONTROLLER)
    try:
        about, refused = await _read(parts, context, request)
        limit = int(request.get("limit", _LIMIT))
    except (AttributeError, KeyError, TypeError, ValueError) as fault:
        raise RequestRefused(ErrorCode.INVALID_REQUEST, f"not a plan: {fault}") from fault
    plan = await parts.controller.submit(PlanAsked(about))
    return {
        "moves": _lines(plan.transitions[:limit]),
        "moves_count": len(plan.transitions),
        "later": _lines(plan.later[:limit]),
        "later_count": len(plan.later),
        "brokers": plan.brokers,
        "writes": plan.writes_count,
        "warnings": plan.warnings,
        "refused": [*refused, *_refused(plan)],
        **await _bytes(parts, plan),
    }


async def _read(
    parts: Parts, context: RequestContext, request: Mapping[str, Any]
) -> tuple[Plannable, Refusals]:
    match request["kind"]:
        case "create":
            return await _creation(parts, context, [_new_topic(t) for t in request["topics"]])
        case "grow":
            return await _growth(parts, _grown_topic(request))
        case "delete":
            return _deletion(parts, [str(name) for name in request["topics"]])
        case "move":
            targets = {
                _partition(p): None if p["replicas"] is None else _brokers(p["replicas"])
                for p in request["partitions"]
            }
            return ReassignmentsAsked(targets), []
        case "elect":
            kind = ElectionType[request.get("election", "preferred").upper()]
            wanted = request.get("partitions")
            chosen = None if wanted is None else tuple(_partition(p) for p in wanted)
            return ElectionsAsked(kind, chosen), []
        case other:
            raise ValueError(f"there is no plan of kind {other!r}")


async def _creation(
    parts: Parts, context: RequestContext, asks: Sequence[NewTopic]
) -> tuple[Plannable, Refusals]:
    client = QuotaClient.of(context.principal, context.client_id)
    quota = parts.quotas.mutations(client, parts.settings, strict=True)
    outcomes = await parts.admin.create_topics(asks, quota, timeout_ms=0, validate_only=True)
    nodes: dict[str, StoredTopic] = {}
    refused: Refusals = []
    for ask, outcome in zip(asks, outcomes, strict=True):
        if isinstance(outcome, Created):
            placement = outcome.creation.placement
            partitions = {n: Assignment(replicas) for n, replicas in placement.items()}
            nodes[ask.name] = StoredTopic(topic_id=outcome.topic_id, partitions=partitions)
        else:
            refused.append(_refusal(ask.name, outcome))
    return TopicsChanged(nodes), refused


async def _growth(parts: Parts, ask: Growth) -> tuple[Plannable, Refusals]:
    partitions = await parts.admin.grown(ask)
    if isinstance(partitions, Refused):
        return MarkersChanged(()), [_refusal(ask.topic, partitions)]
    topic_id = next(id for id, name in parts.controller.topic_names.items() if name == ask.topic)
    node = StoredTopic(topic_id=topic_id, partitions=partitions)
    return TopicModified(ask.topic, node), []


def _deletion(parts: Parts, names: Sequence[str]) -> tuple[Plannable, Refusals]:
    no = parts.admin.deletion_refusals(names)
    refused = [_refusal(name, why) for name, why in no.items()]
    return MarkersChanged(tuple(name for name in names if name not in no)), refused


def _new_topic(entry: Mapping[str, Any]) -> NewTopic:
    return NewTopic(
        name=str(entry["name"]),
        partitions=int(entry.get("partitions", -1)),
        factor=int(entry.get("replication_factor", -1)),
        assignment=tuple(
            (number, _brokers(ids)) for number, ids in enumerate(entry.get("assignment") or ())
        ),
        configs=tuple((str(k), str(v)) for k, v in (entry.get("configs") or {}).items()),
    )


def _grown_topic(request: Mapping[str, Any]) -> Growth:
    chosen = request.get("assignment")
    assignment = None if chosen is None else tuple(_brokers(ids) for ids in chosen)
    return Growth(str(request["topic"]), int(request["partitions"]), assignment)


def _partition(entry: Mapping[str, Any]) -> TopicPartition:
    return TopicPartition(str(entry["topic"]), int(entry["partition"]))


def _brokers(ids: Iterable[Any]) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(int(id)) for id in ids)


def _lines(transitions: Iterable[Transition]) -> list[dict[str, str]]:
    return [
        {"subject": m.subject, "before": str(m.before), "after": str(m.after), "why": m.why}
        for m in transitions
    ]


def _refusal(topic: str, refused: Refused) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": None,
        "error_code": refused.code,
        "error_message": refused.why,
    }


def _refused(plan: PlannedEffects) -> Refusals:
    if not isinstance(plan.answer, ReassignmentsAnswer | ElectionsAnswer):
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


async def _bytes(parts: Parts, plan: PlannedEffects) -> dict[str, Any]:
    """The bytes to be copied and removed, with the sizes that the logs have now."""
    known = {id: parts.peers.endpoint(id) for id in parts.metadata.snapshot.brokers}
    endpoints = {id: endpoint for id, endpoint in known.items() if endpoint is not None}
    sources = [Replica(copy.partition, copy.source) for copy in plan.copies]
    sizes = await log_sizes(parts.peers, endpoints, [*sources, *plan.removals], f"plan-{parts.id}")
    copies: list[dict[str, Any]] = [
        {
            "topic": copy.partition.topic,
            "partition": copy.partition.partition,
            "from": copy.source,
            "to": copy.to,
            "bytes": sizes.get(source),
        }
        for copy, source in zip(plan.copies, sources, strict=True)
    ]
    removals: list[dict[str, Any]] = [
        {
            "topic": replica.partition.topic,
            "partition": replica.partition.partition,
            "broker": replica.broker,
            "bytes": sizes.get(replica),
        }
        for replica in plan.removals
    ]
    return {
        "copies": copies,
        "bytes_to_copy": sum((c["bytes"] or 0) * len(c["to"]) for c in copies),
        "removals": removals,
        "bytes_to_remove": sum(r["bytes"] or 0 for r in removals),
    }
