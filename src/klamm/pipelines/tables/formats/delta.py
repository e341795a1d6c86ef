"""A Delta table, by `deltalake` (Rust, no Java).

The offsets are transaction ids of Delta's protocol, one for each partition: an application's name
and a number that only this commit may raise. They are in the same atomic log entry as the files,
survive checkpoints and foreign commits such as OPTIMIZE, and two writers with the same name
conflict by Delta's own rules. What never changes with a commit (topic, how values are decoded) is
the table's description.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa

from klamm.model.errors import KlammError, UsageError
from klamm.pipelines.jobs.writing import StoreAway
from klamm.pipelines.places.remote import Place, RemotePath, files_below, without_secrets
from klamm.pipelines.tables.ddl import Columns
from klamm.pipelines.tables.formats.packages import delta_options, require_delta
from klamm.pipelines.tables.formats.types import plain_type
from klamm.pipelines.tables.state import (
    DATA_FILE,
    DAY,
    MARGIN_S,
    OWN_COLUMNS,
    Conflict,
    DataFile,
    Follow,
    Snapshot,
    schema_of,
)

_COUNTS: Final = ("records", "bad", "ignored", "lost")
_COMPACTED_BYTES: Final = 128 << 20
_RETENTIONS: Final = ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")


class DeltaFormat:
    """A directory with a `_delta_log`."""

    format = "delta"
    drafts: str | None = None

    def __init__(self, place: Place) -> None:
        require_delta()
        self.place = place
        self._options = delta_options(place)

    def load(self) -> Snapshot | None:
        """The newest version."""
        opened = self._opened()
        return None if opened is None else self._snapshot(opened)

    def create(self, state: Follow, columns: Columns) -> Snapshot:
        """Version 0, which has the first offsets."""
        from deltalake import Schema
        from deltalake.transaction import create_table_with_add_actions

        fields = list(schema_of(columns))
        if state.by_day:
            fields.append(pa.field(DAY, pa.date32()))
        if isinstance(self.place, Path):
            self.place.mkdir(parents=True, exist_ok=True)
        with self._plainly():
            create_table_with_add_actions(
                str(self.place),
                Schema.from_arrow(pa.schema(fields)),
                [],
                mode="error",
                partition_by=[DAY] if state.by_day else [],
                name=state.topic,
                description=_described(state),
                storage_options=self._options,
                commit_properties=_properties(state),
            )
        made = self.load()
        assert made is not None, self.place
        return made

    def commit(
        self, seen: Snapshot, state: Follow, columns: Columns, files: Sequence[DataFile]
    ) -> Snapshot:
        """Late columns first: a table that has them and no value in them is whole as well."""
        from deltalake import Field, Schema
        from deltalake.transaction import AddAction

        opened = self._at(seen.version)
        with self._plainly():
            late = {n: kind for n, kind in columns.items() if n not in seen.columns}
            if late:
                fields = Schema.from_arrow(pa.schema(list(late.items()))).fields
                opened.alter.add_columns([Field(f.name, f.type, nullable=True) for f in fields])
            if (state.topic_id, state.cluster) != (seen.state.topic_id, seen.state.cluster):
                opened.alter.set_table_description(_described(state))
            opened.create_write_transaction(
                [
                    AddAction(
                        path=file.path,
                        size=file.bytes,
                        partition_values={DAY: file.day} if state.by_day else {},
                        modification_time=0,
                        data_change=True,
                        stats=_statistics(file),
                    )
                    for file in files
                ],
                "append",
                opened.schema(),
                [DAY] if state.by_day else [],
                commit_properties=_properties(state),
            )
        made = self.load()
        assert made is not None, self.place
        return made

    def replace(self, seen: Snapshot, old: Sequence[DataFile], new: Sequence[DataFile]) -> Snapshot:
        """Delta's own OPTIMIZE does it: the files it makes are its own."""
        assert not new, "OPTIMIZE writes them"
        opened = self._at(seen.version)
        with self._plainly():
            opened.optimize.compact(target_size=_COMPACTED_BYTES)
        made = self.load()
        assert made is not None, self.place
        return made

    def recover(self, seen: Snapshot) -> None:
        """Nothing: a file is part of the table with the commit."""

    def forget(self, keep_s: float) -> int:
        """Delta's own VACUUM and the clean-up of its log, by the table's retention."""
        hours = math.ceil(keep_s / 3600)
        opened, before = self._opened(), self._log_entries()
        wanted = dict.fromkeys(_RETENTIONS, f"interval {hours} hours")
        with self._plainly():
            if {n: opened.metadata().configuration.get(n) for n in wanted} != wanted:
                opened.alter.set_table_properties(wanted)
            count = len(opened.vacuum(hours, dry_run=False))
            count += self._without_left_over(opened.vacuum(hours, full=True), keep_s)
            opened = self._opened()
            opened.create_checkpoint()
            opened.cleanup_metadata()
        return count + max(before - self._log_entries(), 0)

    def _without_left_over(self, paths: Sequence[str], keep_s: float) -> int:
        """Removes data of rounds that were broken off; files that others put there stay."""
        count = 0
        for name in map(unquote, paths):
            path = self.place / name
            with suppress(FileNotFoundError):  # what VACUUM has removed is told again
                age = time.time() - path.stat().st_mtime
                if DATA_FILE.fullmatch(name) and age > keep_s + MARGIN_S:
                    path.unlink()
                    count += 1
        return count

    def _log_entries(self) -> int:
        return sum(1 for _ in files_below(self.place / "_delta_log"))

    def _at(self, version: int) -> Any:
        """The table as it was then, to be changed; Conflict where nobody knows that any more."""
        if (opened := self._opened(version)) is None:
            raise Conflict(f"{self.place} has many newer versions than {version}")
        return opened

    def _opened(self, version: int | None = None) -> Any:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        with self._plainly():
            try:
                return DeltaTable(str(self.place), version, storage_options=self._options)
            except TableNotFoundError:
                return None

    def _snapshot(self, opened: Any) -> Snapshot:
        state = self._state(opened)
        schema = pa.schema(opened.schema().to_arrow())
        own = {*OWN_COLUMNS, DAY}
        columns = {field.name: plain_type(field.type) for field in schema if field.name not in own}
        with self._plainly():
            rows = pa.table(opened.get_add_actions(flatten=True)).to_pylist()
        files = [
            DataFile(
                path=unquote(row["path"]),
                day=str(row[f"partition.{DAY}"]) if row.get(f"partition.{DAY}") else None,
                rows=row["num_records"] or 0,
                bytes=row["size_bytes"],
            )
            for row in rows
        ]
        return Snapshot(version=opened.version(), state=state, columns=columns, files=files)

    def _state(self, opened: Any) -> Follow:
        try:
            told = json.loads(opened.metadata().description or "")
            state = Follow.from_json(told | {"offsets": {}})
        except (ValueError, KeyError, TypeError):
            raise UsageError(
                f"{self.place} is a Delta table that follows no topic: name another directory"
            ) from None
        offsets: dict[int, int] = {}
        with self._plainly():
            while (found := opened.transaction_version(_app(state, len(offsets)))) is not None:
                offsets[len(offsets)] = found
            counts: dict[str, Any] = {
                name: opened.transaction_version(f"klamm/{name}") or 0 for name in _COUNTS
            }
        return replace(state, offsets=offsets, **counts)

    @contextmanager
    def _plainly(self) -> Iterator[None]:
        """Delta's faults in our words."""
        from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

        try:
            yield
        except CommitFailedError:
            raise Conflict(f"somebody else has changed {self.place} meanwhile") from None
        except TableNotFoundError:
            raise
        except (DeltaError, OSError) as fault:
            why = without_secrets((str(fault).splitlines() or [""])[0])[:500]
            kind = StoreAway if isinstance(self.place, RemotePath) else KlammError
            raise kind(f"the Delta table {self.place}: {why}") from None


def _described(state: Follow) -> str:
    told = state.to_json()
    for name in ("offsets", *_COUNTS):
        del told[name]
    return json.dumps(told)


def _app(state: Follow, partition: int) -> str:
    """The name by which Delta knows who has read a partition."""
    return f"klamm/{state.cluster}/{state.topic_id}/{partition}"


def _properties(state: Follow) -> Any:
    from deltalake import CommitProperties, Transaction

    counts = [Transaction(f"klamm/{name}", getattr(state, name)) for name in _COUNTS]
    return CommitProperties(
        custom_metadata={"klamm": json.dumps(state.to_json())},
        app_transactions=[Transaction(_app(state, p), o) for p, o in state.offsets.items()]
        + counts,
    )


def _statistics(file: DataFile) -> str:
    known = {name: ends for name, ends in file.stats.items() if ends[0] is not None}
    return json.dumps(
        {
            "numRecords": file.rows,
            "minValues": {name: ends[0] for name, ends in known.items()},
            "maxValues": {name: ends[1] for name, ends in known.items()},
            "nullCount": {name: ends[2] for name, ends in file.stats.items()},
        }
    )


def is_delta(place: Place) -> bool:
    """Whether there is a Delta table."""
    log = place / "_delta_log"
    return log.is_dir() if isinstance(log, Path) else next(log.files(), None) is not None
