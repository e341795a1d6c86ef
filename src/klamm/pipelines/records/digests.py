"""Proof that records are the same, wherever they lie: checksums of windows of a partition.

A digest is taken of a canonical form of the records (time, kind of time, key, value, headers;
big-endian, -1 for null), one for each window of 65,536 offsets, so that a mismatch names a range.
It does not depend on files, codecs or batch limits: a topic, its Parquet files and the restored
topic give the same.

Three sums make one digest. `place` covers the offsets of all rows; `content` covers the records
that readers see; `hidden` covers control records and rolled-back ones. A topic restored by
appending has new offsets and nothing hidden, and is compared by content alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from crc32c import crc32c

from klamm.pipelines.records.batches import headers_of, pieces_of
from klamm.pipelines.records.kernels import kernels

WINDOW: Final = 1 << 16
_FIXED_BYTES: Final = 8 + 1 + 4 + 4 + 4
_CHUNK_BYTES: Final = 256 << 10  # of the canonical form at once: what a processor's cache holds


@dataclass(slots=True)
class Digest:
    """The sums of one window so far."""

    rows: int = 0
    records: int = 0
    place: int = 0
    content: int = 0
    hidden: int = 0

    def text(self) -> str:
        """The digest in a manifest."""
        return f"{self.place:08x}-{self.content:08x}-{self.hidden:08x}"


@dataclass(slots=True)
class Digests:
    """The digests of a partition's windows, fed with archive frames in the order of offsets."""

    windows: dict[int, Digest] = field(default_factory=dict)

    def add(self, frame: Any) -> None:
        """Takes a frame with the archive's columns."""
        offsets = frame.column("offset").to_numpy()
        window_of = offsets // WINDOW
        edges = [0, *(np.flatnonzero(np.diff(window_of)) + 1).tolist(), len(offsets)]
        for first, stop in pairwise(edges):
            if stop > first:
                window = self.windows.setdefault(int(window_of[first]), Digest())
                _add_rows(window, frame.slice(first, stop - first), offsets[first:stop])

    def texts(self) -> dict[int, str]:
        """The digests by window."""
        return {number: digest.text() for number, digest in sorted(self.windows.items())}

    def named(self) -> dict[str, str]:
        """The same as a manifest has it: JSON knows no numbers as names."""
        return {str(number): text for number, text in self.texts().items()}


def _add_rows(window: Digest, frame: Any, offsets: Any) -> None:
    window.rows += len(offsets)
    window.place = crc32c(offsets.astype(">i8").tobytes(), window.place)
    hidden = pc.or_(frame.column("is_control"), frame.column("is_aborted"))
    if pc.any(hidden).as_py():
        window.hidden = content_sum(frame.filter(hidden), window.hidden)
        frame = frame.filter(pc.invert(hidden))
    window.records += frame.num_rows
    if frame.num_rows:
        window.content = content_sum(frame, window.content)


def content_sum(frame: Any, total: int = 0) -> int:
    """The checksum of the records of a frame in their canonical form, after what came before."""
    time = frame.column("timestamp_ms").to_numpy()
    kind = frame.column("timestamp_type").to_numpy()
    key, value = pieces_of(frame.column("key")), pieces_of(frame.column("value"))
    column = frame.column("headers")
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    headers, count = headers_of(column, canonical=True)
    size = _FIXED_BYTES + sum(np.maximum(p.size, 0) for p in (key, value, headers))
    ends = np.cumsum(size)
    out = np.empty(max(_CHUNK_BYTES, int(size.max())), np.uint8)
    at = done = 0
    while at < len(ends):
        stop = max(int(np.searchsorted(ends, done + _CHUNK_BYTES, side="right")), at + 1)
        rows = slice(at, stop)
        written = kernels().canonical(
            time[rows],
            kind[rows],
            *(key.at[rows], key.size[rows], key.data),
            *(value.at[rows], value.size[rows], value.data),
            *(headers.at[rows], headers.size[rows], count[rows], headers.data),
            out,
        )
        at, done, begun = stop, int(ends[stop - 1]), done
        assert written == done - begun, f"{written} bytes of {done - begun} were written"
        total = crc32c(out.data[:written], total)
    return total


def combined(texts: Iterable[tuple[int, int, str]]) -> str:
    """One digest of many: (a file's first offset, a window in it, its digest)."""
    lines = "".join(f"{first}:{number}:{text}\n" for first, number, text in sorted(texts))
    return f"crc32c-windows:{crc32c(lines.encode()):08x}"


def window_offsets(number: int) -> str:
    """A window in words."""
    return f"offsets {number * WINDOW} to {(number + 1) * WINDOW - 1}"
