"""The ledger topic, read for what controllers decided that do not answer any more.

Each broker tells the story of its own terms. What one decided that is down now, or gone for good,
is in the topic to which all of them bring their lines.
"""

from __future__ import annotations

import json
from typing import Any, Final

from klamm.client.aio.admin import Admin
from klamm.client.aio.consumer import Consumer
from klamm.client.errors import ClientError
from klamm.model.errors import RequestRefused
from klamm.model.names import KLAMM_LEDGER, TopicPartition
from klamm.model.offsets import EARLIEST, LATEST

# Beyond this the topic is only read where a broker is known to be missing.
_RECORDS_MAX: Final = 20_000
_PATIENCE_S: Final = 5.0
_PARTITION: Final = TopicPartition(KLAMM_LEDGER, 0)


async def decisions_about(admin: Admin, topic: str) -> list[dict[str, Any]]:
    """Every decision about a topic that the ledger topic holds; none where it cannot be read."""
    try:
        return await _read(admin, topic)
    except (ClientError, RequestRefused):
        return []  # no such topic, no leader, or not for us: the story has what brokers tell


async def _read(admin: Admin, topic: str) -> list[dict[str, Any]]:
    picture = await admin.client.refresh([KLAMM_LEDGER])
    ledger = picture.topics.get(KLAMM_LEDGER)
    if ledger is None or not ledger.partitions or ledger.partitions[0].leader_id < 0:
        return []
    start = (await admin.list_offsets({_PARTITION: EARLIEST}))[_PARTITION]
    end = (await admin.list_offsets({_PARTITION: LATEST}))[_PARTITION]
    if start.error_code or end.error_code:
        return []
    is_anyone_missing = not set(ledger.partitions[0].replica_nodes) <= set(picture.nodes)
    if end.offset - start.offset > _RECORDS_MAX and not is_anyone_missing:
        return []
    return await _up_to(admin, topic, start.offset, end.offset)


async def _up_to(admin: Admin, topic: str, start: int, end: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    wanted = f'"topic":{json.dumps(topic, ensure_ascii=False)},'.encode()
    async with Consumer(admin.client, {_PARTITION: start}) as consumer:
        while (position := consumer.positions[_PARTITION]) < end:
            polled = await consumer.poll(timeout_s=_PATIENCE_S)
            values = (record.value for record in polled)
            found += [json.loads(value) for value in values if value and wanted in value]
            if consumer.positions[_PARTITION] == position:
                break  # its leader is away: what was read so far is better than nothing
    return found
