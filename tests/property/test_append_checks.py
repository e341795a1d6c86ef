"""One look at a batch comes to the same as the rules one by one."""

from __future__ import annotations

import struct

import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.log.settings import LogSettings
from klamm.log.writing.append import (
    AppendRefused,
    checked_header,
    codec_fault,
    header_fault,
    read_sole_header,
)
from klamm.protocol.batch import CRC_AT, CRC_FROM, HEADER, HEADER_SIZE, BatchHeader

LENGTH = HEADER_SIZE - 12

# A good batch has the first of each; one or two of the others make it another one.
FIELDS = {
    "base_offset": (0, 1, -1),
    "length": (0, -1, 1),  # more than there is
    "leader_epoch": (-1, 0, 7),
    "magic": (2, 0, 1, 3),
    "crc": (0, 1),  # more than it should be
    "attributes": (0, 1, 2, 3, 4, 8, 0x10, 0x20, 0x40, 0x14, 0x38),
    "base_timestamp": (1_000, -1),
    "max_timestamp": (1_000, -1),
    "producer_id": (-1, 0, 7),
    "producer_epoch": (-1, 0),
    "base_sequence": (-1, 0, 5),
    "record_count": (1, 0, -1, 2, 10),
}


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    values = {name: choices[0] for name, choices in FIELDS.items()}
    for name in draw(st.lists(st.sampled_from(sorted(FIELDS)), max_size=2)):
        values[name] = draw(st.sampled_from(FIELDS[name]))
    values["last_offset_delta"] = values["record_count"] - draw(st.sampled_from((1, 1, 1, 0)))
    records = draw(st.binary(max_size=60))
    values["length"] += LENGTH + len(records)
    off = values.pop("crc")
    batch = bytearray(HEADER.pack(*BatchHeader(crc=0, **values)) + records)
    right = crc32c.crc32c(bytes(batch[CRC_FROM:]))
    struct.pack_into(">I", batch, CRC_AT, (right + off) & 0xFFFFFFFF)
    match draw(st.sampled_from(("whole", "whole", "whole", "whole", "cut", "more"))):
        case "cut":
            del batch[draw(st.integers(0, len(batch) - 1)) :]
        case "more":
            batch += draw(st.sampled_from((b"x", bytes(batch))))
    return bytes(batch)


@settings(max_examples=800, deadline=None)
@given(
    batch=batches(),
    version=st.sampled_from((3, 6, 7, 11)),
    from_client=st.booleans(),
    topic=st.sampled_from(
        (LogSettings(), LogSettings(log_append_time=True), LogSettings(max_message_bytes=90))
    ),
)
def test_both_come_to_the_same(
    batch: bytes, version: int, from_client: bool, topic: LogSettings
) -> None:
    view = memoryview(batch)
    careful = read_sole_header(view)
    if isinstance(careful, AppendRefused):
        careful = codec_fault(view, version) or careful
    else:
        careful = header_fault(view, careful, topic, version, from_client) or careful
    found = checked_header(view, topic, version, from_client)
    assert type(found) is type(careful)
    assert found == careful
