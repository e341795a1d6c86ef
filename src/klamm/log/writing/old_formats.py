"""Message sets of old producers, as the batches that a topic's log can hold."""

from __future__ import annotations

from klamm.log.settings import LogSettings
from klamm.log.writing.append import AppendRefused
from klamm.log.writing.records import rest
from klamm.model.errors import ErrorCode
from klamm.protocol.batch import HEADER_SIZE, Codec
from klamm.protocol.compression import ExpandsTooFar
from klamm.protocol.message_sets.layout import SetRefused
from klamm.protocol.message_sets.up import upgrade


def upgraded(
    messages: memoryview, settings: LogSettings, size_max: int | None
) -> memoryview | AppendRefused | None:
    """The batch for a message set; None when no whole message is in it. For a worker thread.

    With a `size_max` the records may raise `ExpandsTooFar`, to be tried with more room.
    """
    limit = settings.expanded_size_max
    room = limit if size_max is None else min(size_max, limit)
    # What is stored as it comes has to fit as it is; what the topic compresses may be larger first.
    stored_plain = settings.codec in (None, Codec.NONE)
    try:
        batch = upgrade(
            messages,
            message_size_max=settings.max_message_bytes,
            plain_size_max=settings.size_max - HEADER_SIZE if stored_plain else limit,
            size_max=room,
            pause=rest,
        )
    except SetRefused as refusal:
        return AppendRefused(refusal.code, str(refusal))
    except ExpandsTooFar as fault:
        if room < limit:
            raise
        return AppendRefused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{fault}; send smaller batches, or raise klamm.batch.expanded.bytes.max",
        )
    return None if batch is None else memoryview(bytearray(batch))
