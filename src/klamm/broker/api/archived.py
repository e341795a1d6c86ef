"""Archived (private, key 1008): have the controller write down where a topic's archive lies.

Asked with `{"topic": name, "topic_id": id, "manifest": path, "sha256": of that file, "records":
how many}`, by whoever is about to delete the topic because of it. Refused where the topic is
another one by now.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.controller.events import TopicArchived
from klamm.model.errors import ErrorCode, RequestRefused
from klamm.model.names import id_from_text
from klamm.protocol.private import PrivateKey
from klamm.security.authorization.apis import need_of

_TOPIC: Final = need_of(PrivateKey.ARCHIVED, "topic")


async def handle(
    parts: Parts, context: RequestContext, request: Mapping[str, Any]
) -> dict[str, Any]:
    try:
        ask = TopicArchived(
            topic=str(request["topic"]),
            topic_id=id_from_text(str(request["topic_id"])),
            manifest=str(request["manifest"]),
            sha256=str(request["sha256"]),
            records=int(request["records"]),
        )
    except (KeyError, ValueError, TypeError):
        raise RequestRefused(ErrorCode.INVALID_REQUEST, "this describes no archive") from None
    parts.access.demand(context, _TOPIC, ask.topic)
    fault = await parts.controller.submit(ask, context.asked_by)
    return {"error_code": fault.code, "error_message": fault.message}
