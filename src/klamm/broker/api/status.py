"""Status (private, key 1010): one look at the whole cluster, as its controller sees it.

Asked with `{"limit": n}` (1,000 where it is left out). Answers the controller, its epoch and since
when it is one; counts of topics and partitions; every broker that is registered or that an
assignment names; and, each as `{"count": n, "items": [...]}` with at most `limit` items: partitions
that are `offline`, `under_replicated` or `below_min_isr`, `deletions` and why they halt, `moves`,
`frozen` topics, those that are `kept` until a time, topics that are `importing`, and orders that a
broker `refused`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, TypeVar

from klamm.broker.metadata_cache import MetadataSnapshot
from klamm.broker.net import asked
from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.controller.events import StatusAsked
from klamm.controller.questions.survey import MoveStatus
from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId, TopicPartition
from klamm.model.settings.topic import kept_until
from klamm.protocol.private import PrivateKey
from klamm.security.authorization.apis import need_of

_CLUSTER: Final = need_of(PrivateKey.STATUS, "cluster")

_LIMIT: Final = 1_000
_MIN_ISR: Final = "min.insync.replicas"

T = TypeVar("T")


async def handle(
    parts: Parts, context: RequestContext, request: Mapping[str, Any]
) -> dict[str, Any]:
    parts.access.demand(context, _CLUSTER)
    limit = max(0, asked.number(request, "limit", default=_LIMIT))
    found = await parts.controller.submit(StatusAsked())

    def cut(items: Sequence[T], form: Callable[[T], object] = str) -> dict[str, Any]:
        return {"count": len(items), "items": [form(item) for item in items[:limit]]}

    return {
        "error_code": ErrorCode.NONE,
        "controller": found.controller,
        "controller_epoch": found.epoch,
        "controller_since_ms": found.began_ms,
        "topics": found.topics,
        "partitions": found.partitions,
        "brokers": [asdict(broker) for broker in found.brokers],
        "offline": cut(found.offline),
        "under_replicated": cut(found.under_replicated),
        "below_min_isr": cut(await _below_min_isr(parts)),
        "deletions": cut(found.deletions, asdict),
        "moves": cut(found.moves, _move),
        "frozen": cut(found.frozen),
        "kept": cut(await _kept(parts, found.frozen), _kept_until),
        "importing": cut(found.importing),
        "refused": cut(found.refused, _refused),
    }


async def _kept(parts: Parts, frozen: Sequence[str]) -> list[tuple[str, int]]:
    """The topics that go when a time has come, and when that is."""
    await parts.dynamic_config.learn(frozen)
    found = ((topic, kept_until(parts.dynamic_config.overrides(topic))) for topic in frozen)
    return [(topic, until_ms) for topic, until_ms in found if until_ms is not None]


def _kept_until(kept: tuple[str, int]) -> dict[str, Any]:
    return {"topic": kept[0], "until_ms": kept[1]}


async def _below_min_isr(parts: Parts) -> list[TopicPartition]:
    """Led partitions that refuse acks=all, because too few of their replicas are in sync."""
    now = parts.metadata.snapshot
    # A broker keeps the settings of the topics it hosts in step; others it reads when asked.
    await parts.dynamic_config.learn(_strange(now, parts.id))
    usual = parts.dynamic_config.settings.for_topic({}).int(_MIN_ISR)
    found = []
    for topic, partitions in now.topics.items():
        own = parts.dynamic_config.overrides(topic)
        least = parts.dynamic_config.topic(topic).int(_MIN_ISR) if _MIN_ISR in own else usual
        for index, info in partitions.items():
            if len(info.isr) < least and info.leader >= 0:
                found.append(TopicPartition(topic, index))
    return sorted(found)


def _strange(now: MetadataSnapshot, broker: BrokerId) -> Iterator[str]:
    for topic, partitions in now.topics.items():
        if not any(broker in info.replicas for info in partitions.values()):
            yield topic


def _move(move: MoveStatus) -> dict[str, Any]:
    return {**asdict(move), "partition": str(move.partition)}


def _refused(order: tuple[BrokerId, TopicPartition]) -> dict[str, Any]:
    return {"broker": order[0], "partition": str(order[1])}
