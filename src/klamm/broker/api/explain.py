"""Explain (private, key 1001): what a topic is waiting for, as the controller sees it.

Asked with `{"topic": name}`; answers the topic's `state` and `waiting`, one object for each reason:
what is held up, the partition, the broker, why, until when, and since when. `deleting_since_ms` is
null unless the topic is being deleted, `kept_until_ms` unless it goes at a time. A controller
remembers times of its own term: where `since_at_least` is true, the wait may be older than it says.

Without a topic it answers `topics`, the same of every topic that waits for something, in the order
of their names: at most `limit` of them, behind the name `after` where one is given, and `more`
where there are others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from klamm.broker.net import asked
from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.controller.events import Explanation, ExplanationAsked, ExplanationsAsked
from klamm.model.errors import ErrorCode
from klamm.model.settings.topic import kept_until
from klamm.protocol.private import PrivateKey
from klamm.security.authorization.apis import need_of

_TOPIC: Final = need_of(PrivateKey.EXPLAIN, "topic")
_CLUSTER: Final = need_of(PrivateKey.EXPLAIN, "cluster")
_LIMIT: Final = 200


async def handle(
    parts: Parts, context: RequestContext, request: Mapping[str, Any]
) -> dict[str, Any]:
    if request.get("topic") is None:
        return await _all(parts, context, request)
    topic = asked.text(request, "topic")
    parts.access.demand(context, _TOPIC, topic)
    found = await parts.controller.submit(ExplanationAsked(topic))
    if found is None:
        return {
            "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "error_message": f"there is no topic {topic!r}",
        }
    await parts.dynamic_config.learn([topic])
    kept_until_ms = kept_until(parts.dynamic_config.overrides(topic))
    told = _told(topic, found) | {"kept_until_ms": kept_until_ms}
    return {"error_code": ErrorCode.NONE, **told}


async def _all(parts: Parts, context: RequestContext, request: Mapping[str, Any]) -> dict[str, Any]:
    parts.access.demand(context, _CLUSTER)
    after = None if request.get("after") is None else asked.text(request, "after")
    limit = min(max(asked.number(request, "limit", _LIMIT), 1), _LIMIT)
    found = await parts.controller.submit(ExplanationsAsked(after, limit + 1))
    told = [_told(topic, explanation) for topic, explanation in found.items()]
    return {"error_code": ErrorCode.NONE, "topics": told[:limit], "more": len(told) > limit}


def _told(topic: str, found: Explanation) -> dict[str, Any]:
    return {
        "topic": topic,
        "state": found.state,
        "deleting_since_ms": found.deleting_since_ms,
        "waiting": [
            {
                "what": reason.what,
                "partition": reason.partition,
                "broker": reason.broker,
                "why": reason.why,
                "until": reason.until,
                "since_ms": reason.since_ms,
                "since_at_least": reason.since_ms <= found.began_ms,
            }
            for reason in found.waiting
        ],
    }
