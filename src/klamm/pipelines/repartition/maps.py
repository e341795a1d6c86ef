"""The offset map: where each record of a target came from, and where groups go on.

Targets are dense and begin at 0, so a map in the order of runs says of the record with offset k of
a target from which offset of which source it came.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from klamm.model.errors import KlammError


@dataclass(frozen=True, slots=True)
class Origins:
    """The sources and offsets from which the records of one target came, in its order."""

    source: Any
    offset: Any

    def __len__(self) -> int:
        return len(self.offset)


def run_directory(root: str | Path, run: int) -> Path:
    """The maps of one run."""
    return Path(root) / f"run-{run:05d}"


def origins_of(root: str | Path, runs: range, target: int, base: int = 0) -> Origins:
    """Reads the map of one target for some runs, the first of which begins at this offset."""
    sources, offsets, count = [np.empty(0, np.int32)], [np.empty(0, np.int64)], base
    for run in runs:
        path = run_directory(root, run) / f"target-{target:05d}.parquet"
        if not path.exists():
            continue
        for row in pq.read_table(path).to_pylist():
            if row["new_first"] != count:
                raise KlammError(f"{path} does not join what was before: offset {row['new_first']}")
            own = row["source_offsets"]
            found = np.arange(row["first"], row["last"] + 1) if own is None else np.array(own)
            sources.append(np.full(row["count"], row["source"], np.int32))
            offsets.append(found)
            count += row["count"]
    return Origins(np.concatenate(sources), np.concatenate(offsets))


def translated(origins: Origins, committed: Mapping[int, int], sources: int) -> tuple[int, int]:
    """The offset at which a group goes on in a target, and how many records it will see again.

    Nothing may be lost: it is the first record that the group has not read of any source. A source
    for which it has committed nothing counts as not read at all.
    """
    line = np.zeros(sources, np.int64)
    for source, offset in committed.items():
        line[source] = offset
    is_unread = origins.offset >= line[origins.source] if len(origins) else np.zeros(0, bool)
    if not is_unread.any():
        return len(origins), 0
    first = int(np.argmax(is_unread))
    return first, int((~is_unread[first:]).sum())


def violations(origins: Origins, keys: Any, known: Any) -> int:
    """Counts the records that come after a later one of the same key and source.

    `keys` are hashes of the keys in the order of the target, and `known` says which have one.
    """
    rows = np.flatnonzero(known)
    if len(rows) < 2:
        return 0
    key, source, offset = keys[rows], origins.source[rows], origins.offset[rows]
    order = np.lexsort((np.arange(len(rows)), source, key))
    key, source, offset = key[order], source[order], offset[order]
    same = (key[1:] == key[:-1]) & (source[1:] == source[:-1])
    return int((same & (offset[1:] <= offset[:-1])).sum())
