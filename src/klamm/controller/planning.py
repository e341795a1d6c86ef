"""What the controller would do, without doing it.

The core is a function, so a plan is the core itself run on a copy: the copy holds the topics in
question and every broker, the store is assumed to say yes, and nobody is told. What answers of
brokers would lead to later is not in a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy

from klamm.controller.context import Context
from klamm.controller.effects import Outcome, Plan, RewriteTopic, Stored, Write
from klamm.controller.turn import Flow, Settings, Turn


def plan(
    context: Context,
    topics: Iterable[str],
    settings: Settings,
    work: Callable[[Turn], Flow[object]],
) -> Plan:
    """Run `work` on a copy of these topics."""
    turn = Turn(_copy(context, topics), settings, "plan")
    flow = work(turn)
    writes_count = 0
    try:
        writes = next(flow)
        while True:
            writes_count += len(writes)
            writes = flow.send(_all_stored(writes))
    except StopIteration as end:
        answer = end.value
    return Plan(
        tuple(turn.moves),
        tuple(sorted({request.to for request in turn.requests})),
        writes_count,
        tuple(turn.warnings),
        answer,
    )


def _all_stored(writes: Sequence[Write]) -> list[Outcome]:
    return [Stored(w.node.version + 1 if isinstance(w, RewriteTopic) else 0) for w in writes]


def _copy(context: Context, names: Iterable[str]) -> Context:
    """A context of its own with these topics; the rest of the cluster is brokers only."""
    kept = {name: context.topics[name] for name in dict.fromkeys(names) if name in context.topics}
    copy = Context(
        context.controller,
        context.epoch,
        context.now_ms,
        context.began_ms,
        brokers=dict(context.brokers),
        shutting_down=dict(context.shutting_down),
        topics=deepcopy(kept),
        names={topic.id: topic.name for topic in kept.values()},
        deletions=deepcopy({n: d for n, d in context.deletions.items() if n in kept}),
        unclean_default=context.unclean_default,
    )
    ids = [p.id for p in copy.partitions()]
    for partition in copy.partitions():
        for broker in partition.assignment.replicas:
            copy.hosted.setdefault(broker, {})[partition.id] = None
    copy.unled = {id: context.unled[id] for id in ids if id in context.unled}
    copy.moving = {id: context.moving[id] for id in ids if id in context.moving}
    copy.move_requests = {
        id: context.move_requests[id] for id in ids if id in context.move_requests
    }
    for broker, dirs in context.offline_dirs.items():
        copy.offline_dirs[broker] = {id: dirs[id] for id in ids if id in dirs}
    return copy
