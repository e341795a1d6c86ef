"""SwapTopics (private, key 1013): have two topics exchange their names.

Asked of the controller with `{"topic": name, "topic_id": id, "other": name, "other_id": id}`. Both
must be frozen; what else stands in the way is told. Asked again when it is done, it is a success.
Answered when it is stored and this broker shows it; the others hear of it at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from klamm.broker.net import asked
from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.controller.events import SwapAsked
from klamm.model.errors import ErrorCode, RequestRefused
from klamm.model.names import id_from_text, is_internal
from klamm.protocol.private import PrivateKey
from klamm.security.authorization.apis import need_of

_TOPIC: Final = need_of(PrivateKey.SWAP_TOPICS, "topic")

_SHOWN_MS: Final = 10_000


async def handle(
    parts: Parts, context: RequestContext, request: Mapping[str, Any]
) -> dict[str, Any]:
    try:
        ask = SwapAsked(
            topic=asked.text(request, "topic"),
            topic_id=id_from_text(asked.text(request, "topic_id")),
            other=asked.text(request, "other"),
            other_id=id_from_text(asked.text(request, "other_id")),
        )
    except ValueError:
        raise RequestRefused(ErrorCode.INVALID_REQUEST, "these are no ids of topics") from None
    for name in (ask.topic, ask.other):
        parts.access.demand(context, _TOPIC, name)
        if is_internal(name):
            raise RequestRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is internal")
    fault = await parts.controller.submit(ask, context.asked_by)
    if fault.code is ErrorCode.NONE:
        await parts.metadata.wait_for(
            lambda seen: seen.topic_ids.get(ask.topic) == ask.other_id, _SHOWN_MS
        )
    return {"error_code": fault.code, "error_message": fault.message}
