"""Explain (private, key 1001): what a topic is waiting for, as the controller sees it.

Asked with `{"topic": name}`; answers the topic's `state` and `waiting`, one object for each reason:
what is held up, the partition, the broker, why, until when, and since when. `deleting_since_ms` is
null unless the topic is being deleted. A controller remembers times of its own term: where
`since_at_least` is true, the wait may be older than it says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from klamm.broker.net import asked
from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.controller.events import ExplanationAsked
from klamm.model.errors import ErrorCode
from klamm.protocol.private import PrivateKey
from klamm.security.authorization.apis import need_of

_TOPIC: Final = need_of(PrivateKey.EXPLAIN, "topic")


async def handle(
    parts: Parts, context: RequestContext, request: Mapping[str, Any]
) -> dict[str, Any]:
    topic = asked.text(request, "topic")
    parts.access.demand(context, _TOPIC, topic)
    found = await parts.controller.submit(ExplanationAsked(topic))
    if found is None:
        return {
            "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "error_message": f"there is no topic {topic!r}",
        }
    return {
        "error_code": ErrorCode.NONE,
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
