"""RollCall (private, key 1006): a new controller asks what this broker holds.

Asked with `{"controller": id, "controller_epoch": n, "broker_epoch": n}`; answers `replicas` and
`metadata` (`broker/roll_call_form.py`). It fences like the controller's other requests: once
answered, whatever an earlier controller has on its way is refused. That is what makes the answer
worth something, for nobody but the one who asked can change it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.broker.roll_call_form import to_json
from klamm.model.errors import ErrorCode, ProtocolError, RequestRefused

BROKERS_ONLY: Final = True


async def handle(
    parts: Parts, context: RequestContext, request: Mapping[str, Any]
) -> dict[str, Any]:
    try:
        broker_epoch, controller_epoch = request["broker_epoch"], request["controller_epoch"]
        held = await parts.replicas.answer_roll_call(int(broker_epoch), int(controller_epoch))
    except (KeyError, TypeError, ValueError) as fault:
        raise ProtocolError(f"a roll call without its epochs: {fault}") from fault
    if isinstance(held, ErrorCode):
        raise RequestRefused(held)
    return to_json(held)
