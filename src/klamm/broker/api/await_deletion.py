"""AwaitDeletion (private, key 1005): wait until every replica and every node of topics is gone.

Asked with `{"topics": names, "timeout_ms": how long}`; answers `left`, those that are still being
deleted when the time is over. Any broker can tell: the marker of a deletion is the last node to go,
and it goes with the topic's own once every replica has confirmed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from klamm.broker.admin.waiting import until_absent
from klamm.broker.net import asked
from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.protocol.private import PrivateKey
from klamm.security.authorization.apis import need_of
from klamm.store import layout

_TOPIC: Final = need_of(PrivateKey.AWAIT_DELETION, "topic")

_WAIT_MS_MAX: Final = 60_000


async def handle(
    parts: Parts, context: RequestContext, request: Mapping[str, Any]
) -> dict[str, Any]:
    topics = asked.texts(request, "topics")
    for topic in topics:
        parts.access.demand(context, _TOPIC, topic)
    wait_ms = min(max(asked.number(request, "timeout_ms", 0), 0), _WAIT_MS_MAX)
    left = dict.fromkeys(topics)
    try:
        async with asyncio.timeout(wait_ms / 1000):
            for topic in topics:
                await until_absent(parts.session, layout.delete_topic_path(topic))
                del left[topic]
    except TimeoutError:
        pass
    return {"left": list(left)}
