"""ForgetReplica (private, key 1002): let a deletion end without a broker that stays away.

Asked with `{"topic": name, "broker": id}`. The topic must be on its way out and the broker must not
be there; what it has of the topic is written down, and removed when it comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from klamm.broker.net import asked
from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.controller.events import ReplicaGivenUp
from klamm.model.names import BrokerId
from klamm.protocol.private import PrivateKey
from klamm.security.authorization.apis import need_of

_CLUSTER: Final = need_of(PrivateKey.FORGET_REPLICA, "cluster")


async def handle(
    parts: Parts, context: RequestContext, request: Mapping[str, Any]
) -> dict[str, Any]:
    parts.access.demand(context, _CLUSTER)
    ask = ReplicaGivenUp(
        asked.text(request, "topic"), BrokerId(asked.number(request, "broker", -1))
    )
    fault = await parts.controller.submit(ask, context.asked_by)
    return {"error_code": fault.code, "error_message": fault.message}
