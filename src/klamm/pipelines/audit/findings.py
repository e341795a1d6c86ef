"""The findings of an audit: its tables in their place, and the rows of them that the page shows.

Tables are written aside and put in their place together, so that an audit that was broken off
leaves the last whole one.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset

SPANS: Final = 60
STATES_MAX: Final = 5000  # of the timeline, on the page
_ROWS_MAX: Final = 500
_FAULTS: Final = ("illegal", "broken_chains", "lost", "stuck")
# The report shows the first rows of each table in this order; of the timeline the newest, of
# durations the longest.
_ORDER: Final[Mapping[str, tuple[str, ...]]] = {
    "illegal": ("controller_epoch", "sequence"),
    "broken_chains": ("controller_epoch", "sequence"),
    "lost": ("controller_epoch", "first"),
    "stuck": ("since_ms",),
    "moves": ("entity", "from_state", "to_state"),
    "latency": ("entity", "from_state", "to_state"),
    "durations": ("took_ms",),
    "epochs": ("controller_epoch",),
    "timeline": ("since_ms",),
}


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings, and the rows that the report shows."""

    events: int
    first_ms: int
    last_ms: int
    counts: Mapping[str, int]
    rows: Mapping[str, list[dict[str, Any]]]
    by_time: list[dict[str, Any]]

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong."""
        return not any(self.counts[name] for name in _FAULTS)


def put_in_place(fresh: Path, to: Path) -> None:
    """New tables instead of the old ones, which go when the new ones stand.

    Whenever this is broken off, a whole set is there: under its name, or as `tables.before`.
    """
    before = to.with_name(f"{to.name}.before")
    if to.exists():
        shutil.rmtree(before, ignore_errors=True)
        to.rename(before)
    fresh.rename(to)
    shutil.rmtree(before, ignore_errors=True)


def shown(name: str, path: Path) -> tuple[int, list[dict[str, Any]]]:
    """The number of rows of interest in a written table, and those that are shown.

    It is one file, which is read without Spark: a job costs more than that.
    """
    direction = "descending" if name in ("timeline", "durations") else "ascending"
    order = [(column, direction) for column in _ORDER[name]]
    wanted, most = None, _ROWS_MAX
    if name == "latency":
        wanted = pc.field("topic").is_null()
    if name == "timeline":  # replicas have no lanes
        wanted, most = pc.field("entity") != "replica", STATES_MAX
    written = dataset.dataset(path)
    count, first = 0, written.schema.empty_table()
    for batch in written.to_batches(filter=wanted):
        count += batch.num_rows
        both = pa.concat_tables([first, pa.Table.from_batches([batch])])
        first = both.sort_by(order).slice(0, most)
    return (written.count_rows() if name == "timeline" else count), first.to_pylist()
