"""The knowledge that a table has of its topic, and the port to the formats that keep it.

Each commit of a table carries the offsets that it reaches, in the same atomic step as its files. So
the table itself says where to go on, and there is nothing else to lose: who commits, commits after
the version that he has seen, and is refused where somebody was faster.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Protocol

import pyarrow as pa

from klamm.model.errors import KlammError
from klamm.pipelines.places.remote import Place
from klamm.pipelines.records.columns import HEADERS_TYPE
from klamm.pipelines.tables.ddl import Columns

DAY: Final = "kafka_day"
BAD_VALUE: Final = "kafka_bad_value"
BAD_REASON: Final = "kafka_bad_reason"
TIMESTAMP: Final = "kafka_timestamp"
OWN_COLUMNS: Final[Columns] = {
    "kafka_partition": pa.int32(),
    "kafka_offset": pa.int64(),
    TIMESTAMP: pa.timestamp("us", tz="UTC"),
    "kafka_key": pa.binary(),
    "kafka_headers": HEADERS_TYPE,
    "kafka_tombstone": pa.bool_(),
    BAD_VALUE: pa.binary(),
    BAD_REASON: pa.string(),
}
# The names of data files that klamm gives: whose range, or what else is in it, and a random part.
DATA_FILE: Final = re.compile(
    r"(?:[^/]+/)*(?:\d+-\d+-\d+|compacted)\.[0-9a-f]{8}\.parquet", re.ASCII
)
MARGIN_S: Final = 3600  # a file is written before the version that names it
WORK: Final = "_klamm"  # klamm's own directory in a table; readers pass over it


class Conflict(KlammError):
    """Somebody else has changed the table since it was looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Follow:
    """The topic of a table, how it is followed, and how far it has come."""

    topic: str
    topic_id: str
    cluster: str
    values: str  # raw, json or avro
    adding: bool  # whether fields without a column get one
    by_day: bool
    offsets: Mapping[int, int] = field(default_factory=dict)  # the next one of each partition
    records: int = 0
    bad: int = 0  # records whose value is in `kafka_bad_value`
    ignored: int = 0  # records with fields that have no column
    lost: int = 0  # offsets that were gone before they were read

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"offsets": {str(p): o for p, o in sorted(self.offsets.items())}}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Follow:
        """The inverse; ValueError, TypeError or KeyError where it is none."""
        made = cls(**{**found, "offsets": {int(p): int(o) for p, o in found["offsets"].items()}})
        texts = (made.topic, made.topic_id, made.cluster, made.values)
        counts = (made.records, made.bad, made.ignored, made.lost, *made.offsets.values())
        if not all(type(t) is str for t in texts) or not all(type(c) is int for c in counts):
            raise TypeError
        return made

    def after(self, offsets: Mapping[int, int], done: Mapping[str, int]) -> Follow:
        """The state when these offsets are reached, with so many more of each kind."""
        counts = {name: getattr(self, name) + count for name, count in done.items()}
        return replace(self, offsets={**self.offsets, **offsets}, **counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One file of a table."""

    path: str  # below the table's directory
    day: str | None  # of the records' timestamps; None without one
    rows: int
    bytes: int
    stats: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # smallest, largest; as text


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A table at one of its versions."""

    version: int
    state: Follow
    columns: Columns  # of values; the others are the same in every table
    files: Sequence[DataFile]

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(file.bytes for file in self.files)


class Table(Protocol):
    """A format. Each change is one atomic step after a version that was seen."""

    place: Place
    format: str
    drafts: str | None  # where files wait for their commit; None: readers see committed ones only

    def load(self) -> Snapshot | None:
        """The table as it is now; None where there is none."""

    def create(self, state: Follow, columns: Columns) -> Snapshot:
        """A table without records."""

    def commit(
        self, seen: Snapshot, state: Follow, columns: Columns, files: Sequence[DataFile]
    ) -> Snapshot:
        """Adds files, and columns that are new, and says what is reached; or raises Conflict."""

    def replace(self, seen: Snapshot, old: Sequence[DataFile], new: Sequence[DataFile]) -> Snapshot:
        """The same records in other files."""

    def recover(self, seen: Snapshot) -> None:
        """Does what a process that died after its commit has not done any more."""

    def forget(self, keep_s: float) -> int:
        """Shortens the history: versions that are older, and what only they need. How many files.

        Writers who have slept for longer find out when they commit.
        """


def schema_of(columns: Columns) -> Any:
    """The Arrow schema of data files."""
    return pa.schema([*OWN_COLUMNS.items(), *columns.items()])
