"""FindCoordinator (key 10), versions 0-6: who keeps this group or this transactional id.

The first question creates the internal topic. From version 4 on several keys at once.
"""

from __future__ import annotations

from typing import Final

from klamm.broker.coordinators.journal import partition_for
from klamm.broker.net.context import RequestContext
from klamm.broker.net.turns import in_turns
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode
from klamm.model.names import CONSUMER_OFFSETS, NO_LEADER, TRANSACTION_STATE, TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import find_coordinator as messages
from klamm.security.authorization.apis import need_of

_GROUP: Final = need_of(ApiKey.FIND_COORDINATOR, "group", 4)
_TRANSACTION: Final = need_of(ApiKey.FIND_COORDINATOR, "transaction", 4)

_TOPICS: Final = {0: CONSUMER_OFFSETS, 1: TRANSACTION_STATE}
_NEEDS: Final = {0: _GROUP, 1: _TRANSACTION}


async def handle(
    parts: Parts, context: RequestContext, request: messages.Request
) -> messages.Response:
    if context.version >= 4:
        return messages.Response(
            coordinators=[
                await _find(parts, context, key, request.key_type)
                async for key in in_turns(request.coordinator_keys)
            ]
        )
    found = await _find(parts, context, request.key, request.key_type)
    return messages.Response(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


async def _find(
    parts: Parts, context: RequestContext, key: str, key_type: int
) -> messages.Coordinator:
    topic = _TOPICS.get(key_type)
    if topic is None:
        return _nobody(
            key, ErrorCode.INVALID_REQUEST, f"there is no coordinator of type {key_type}"
        )
    need = _NEEDS[key_type]
    denied = parts.access.refusal(context, need, key)
    if denied is not None:
        return _nobody(key, denied, need.message)
    count = len(parts.metadata.snapshot.topics.get(topic, ()))
    if count == 0:
        fault = await parts.auto_creation.create_internal_topic(topic)
        count = len(parts.metadata.snapshot.topics.get(topic, ()))
        if count == 0:
            return _nobody(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, fault)
    at = TopicPartition(topic, partition_for(key, count))
    snapshot = parts.metadata.snapshot
    found = snapshot.partition(at)
    leader = NO_LEADER if found is None else found.leader
    endpoint = snapshot.endpoint(leader, context.listener)
    if endpoint is None:
        return _nobody(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
    return messages.Coordinator(
        key=key, node_id=leader, host=endpoint.host, port=endpoint.port, error_code=0
    )


def _nobody(key: str, error: ErrorCode, why: str | None) -> messages.Coordinator:
    return messages.Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=error, error_message=why
    )
