"""AtRest (private, key 1007): whether this broker takes no more records of topics.

Asked with `{"topics": names}`; every change of settings that was announced before is in force when
it is answered. `partitions` has an entry for each copy here: whether it is frozen, and of a
partition that this broker leads how many records are not yet on enough replicas (`uncommitted`).
Once every broker has said that a topic is frozen, whoever leads it next refuses records as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from klamm.broker.net import asked
from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.broker.replicas.partition import Role
from klamm.model.errors import ErrorCode, RequestRefused
from klamm.protocol.private import PrivateKey
from klamm.security.authorization.apis import need_of

_TOPIC: Final = need_of(PrivateKey.AT_REST, "topic")

_PATIENCE_S: Final = 10.0


async def handle(
    parts: Parts, context: RequestContext, request: Mapping[str, Any]
) -> dict[str, Any]:
    topics = frozenset(asked.texts(request, "topics"))
    for topic in topics:
        parts.access.demand(context, _TOPIC, topic)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await parts.dynamic_config.caught_up()
    except TimeoutError:
        raise RequestRefused(
            ErrorCode.REQUEST_TIMED_OUT, "changes of settings cannot be read now"
        ) from None
    found = []
    async for (topic, index), partition in in_turns(list(parts.replicas.partitions.items())):
        local = partition.log
        if topic not in topics or local is None:
            continue
        leads = partition.role is Role.LEADER
        found.append(
            {
                "topic": topic,
                "partition": index,
                "frozen": local.settings.frozen,
                "uncommitted": local.log_end_offset - local.high_watermark if leads else 0,
            }
        )
    return {"partitions": found}
