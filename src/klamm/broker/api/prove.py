"""Prove (private, key 1009): a broker shows that it is one of this cluster, and has it shown.

Asked twice on a fresh connection: with `{"broker": id, "nonce": hex}`, which is answered with a
`nonce`, and with `{"proof": hex}`, which is answered with this broker's own `proof`
(`broker/net/proof.py`). From then on the connection is a broker's: it may ask what only brokers
may, and no limit of connections or quota of clients holds for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from klamm.broker.net.context import RequestContext
from klamm.broker.net.proof import Challenge
from klamm.broker.parts import Parts


async def handle(
    parts: Parts, context: RequestContext, request: Mapping[str, Any]
) -> dict[str, Any]:
    peer = context.peer
    if peer.challenge is None:
        peer.challenge = Challenge(parts.secret, parts.cluster_id, parts.id)
    answer, proven = peer.challenge.answer(request)
    if proven is not None:
        peer.proven()
    return answer
