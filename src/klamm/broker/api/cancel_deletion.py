"""CancelDeletion (private, key 1004): call a deletion off before any log was removed.

Asked with `{"topic": name}`; refused unless klamm.delete.topic.cancel.enable is true, the topic is
queued for deletion, and no replica was told to remove its log yet (it waits for a move to end, or
for a broker that is away).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from klamm.broker.net import asked
from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.controller.events import DeletionCancelled
from klamm.model.errors import ErrorCode, RequestRefused
from klamm.protocol.private import PrivateKey
from klamm.security.authorization.apis import need_of

_TOPIC: Final = need_of(PrivateKey.CANCEL_DELETION, "topic")


async def handle(
    parts: Parts, context: RequestContext, request: Mapping[str, Any]
) -> dict[str, Any]:
    topic = asked.text(request, "topic")
    parts.access.demand(context, _TOPIC, topic)
    if not parts.settings.bool("klamm.delete.topic.cancel.enable"):
        raise RequestRefused(
            ErrorCode.INVALID_REQUEST,
            "deletions cannot be called off: klamm.delete.topic.cancel.enable is false",
        )
    fault = await parts.controller.submit(DeletionCancelled(topic), context.asked_by)
    return {"error_code": fault.code, "error_message": fault.message}
