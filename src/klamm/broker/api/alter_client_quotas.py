"""AlterClientQuotas (49), versions 0-1: set or lift quotas of users, client ids and addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from klamm.broker.admin import topic_writes
from klamm.broker.admin.client_quotas import altered, stored_entity
from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode, Refused
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.alter_client_quotas import (
    EntityDataResponse,
    EntryData,
    EntryDataResponse,
    Request,
    Response,
)
from klamm.security.authorization.apis import need_of

_CLUSTER: Final = need_of(ApiKey.ALTER_CLIENT_QUOTAS, "cluster")


async def handle(parts: Parts, context: RequestContext, request: Request) -> Response:
    parts.access.demand(context, _CLUSTER)
    outcomes = [await _alter(parts, entry, request.validate_only) for entry in request.entries]
    return Response(
        entries=[
            _response(entry, outcome)
            for entry, outcome in zip(request.entries, outcomes, strict=True)
        ]
    )


def failure(request: Request, code: ErrorCode, message: str | None) -> Response:
    """The same refusal for every entry."""
    refused = Refused(message or "", code)
    return Response(entries=[_response(entry, refused) for entry in request.entries])


async def _alter(parts: Parts, entry: EntryData, validate_only: bool) -> Refused | None:
    entity = stored_entity([(part.entity_type, part.entity_name) for part in entry.entity])
    if isinstance(entity, Refused):
        return entity
    owner = entity
    ops = [(op.key, None if op.remove else op.value) for op in entry.ops]

    def change(stored: Mapping[str, str]) -> dict[str, str] | Refused:
        return altered(stored, owner, ops)

    if validate_only:
        outcome = change({})
        return outcome if isinstance(outcome, Refused) else None
    return await topic_writes.alter_config(parts.session, entity, change)


def _response(entry: EntryData, outcome: Refused | None) -> EntryDataResponse:
    return EntryDataResponse(
        error_code=ErrorCode.NONE if outcome is None else outcome.code,
        error_message=None if outcome is None else outcome.why or None,
        entity=[EntityDataResponse(part.entity_type, part.entity_name) for part in entry.entity],
    )
