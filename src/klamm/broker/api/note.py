"""Note (private, key 1011): a broker tells the controller who is about to change topics.

Asked with `{"kind": "settings" or "creation", "topics": names, "by": who}`, before the change is
written; with an empty `by` after it came to nothing. So the ledger names whoever asked through
another broker than the controller's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from klamm.broker.net import asked
from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.broker.term.requesters import CREATION, SETTINGS
from klamm.model.errors import ErrorCode, RequestRefused
from klamm.model.text import printable

BROKERS_ONLY: Final = True
_KINDS: Final = {"settings": SETTINGS, "creation": (CREATION,)}
_BY_MAX: Final = 400


async def handle(
    parts: Parts, context: RequestContext, request: Mapping[str, Any]
) -> dict[str, Any]:
    kinds = _KINDS.get(asked.text(request, "kind"))
    if kinds is None:
        raise RequestRefused(ErrorCode.INVALID_REQUEST, f"kind is one of {', '.join(_KINDS)}")
    topics, by = asked.texts(request, "topics"), asked.text(request, "by")
    if not parts.is_controller:
        raise RequestRefused(ErrorCode.NOT_CONTROLLER)
    for kind in kinds:
        if by:
            through = f"{printable(by[:_BY_MAX])} through a broker at {context.client_host}"
            parts.controller.requesters.note(kind, topics, through)
        else:
            parts.controller.requesters.drop(kind, topics)
    return {}
