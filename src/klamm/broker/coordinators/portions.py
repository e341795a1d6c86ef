"""A batch of an internal topic in portions, so that reading it back keeps nobody waiting.

The records are unpacked by another thread where they are compressed, within the bound of all
batches, and decoded some at a time. A batch that does not open is left out and told: a coordinator
without one batch is better than none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from itertools import islice
from typing import Final

from klamm.broker.storage.openers import opened
from klamm.log.settings import LogSettings
from klamm.log.writing.records import area_of
from klamm.model.errors import ProtocolError
from klamm.model.names import TopicPartition
from klamm.protocol.batch import BatchHeader, Record, decode_area

log = logging.getLogger("klamm.groups")

_AT_ONCE: Final = 500  # records: a few milliseconds
_ROOM: Final = LogSettings().expanded_size_max


async def portions(
    partition: TopicPartition, header: BatchHeader, batch: memoryview
) -> AsyncIterator[list[Record]]:
    """The records of one batch, some at a time."""
    try:
        if header.codec:
            area = await opened(lambda room: area_of(batch, header, room or _ROOM))
        else:
            area = area_of(batch, header, _ROOM)
        records = decode_area(header, bytes(area))
        while some := list(islice(records, _AT_ONCE)):
            yield some
            if len(some) == _AT_ONCE:
                await asyncio.sleep(0)
    except ProtocolError as fault:
        tell(partition, header.base_offset, fault)


def tell(partition: TopicPartition, offset: int, fault: Exception) -> None:
    """Say that something in an internal topic was passed over."""
    log.warning(
        "records of an internal topic make no sense and are passed over",
        extra={"p": str(partition), "offset": offset, "why": str(fault)},
    )
