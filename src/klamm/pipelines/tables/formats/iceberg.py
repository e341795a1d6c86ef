"""An Iceberg table in a directory, by `pyiceberg`.

The state of a follow is one of the table's properties, set in the commit that adds the files: it
stays when snapshots expire, and it is there once, not with each snapshot of a long history.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

from klamm.model.errors import KlammError, UsageError
from klamm.pipelines.jobs.writing import StoreAway
from klamm.pipelines.places.remote import Place, RemotePath, without_secrets
from klamm.pipelines.tables.ddl import Columns
from klamm.pipelines.tables.formats.iceberg_history import shorten
from klamm.pipelines.tables.formats.iceberg_place import (
    add_files,
    create_table,
    data_files,
    location_of,
    metadata_of,
    newest,
    open_table,
)
from klamm.pipelines.tables.formats.packages import require_iceberg
from klamm.pipelines.tables.formats.types import plain_type
from klamm.pipelines.tables.state import (
    OWN_COLUMNS,
    TIMESTAMP,
    Conflict,
    DataFile,
    Follow,
    Snapshot,
    schema_of,
)

_STATE: Final = "klamm.follow"


class IcebergFormat:
    """A directory with `metadata` and `data`."""

    format = "iceberg"
    drafts: str | None = None

    def __init__(self, place: Place) -> None:
        require_iceberg()
        self.place = place

    def load(self) -> Snapshot | None:
        """The newest version."""
        with self._plainly():
            opened = open_table(self.place)
            return None if opened is None else self._snapshot(*opened)

    def create(self, state: Follow, columns: Columns) -> Snapshot:
        """The first version, which has the first offsets."""
        with self._plainly():
            by = TIMESTAMP if state.by_day else None
            create_table(self.place, schema_of(columns), {_STATE: _text(state)}, day_of=by)
        return self._loaded()

    def commit(
        self, seen: Snapshot, state: Follow, columns: Columns, files: Sequence[DataFile]
    ) -> Snapshot:
        """Late columns, files and state in one commit."""
        with self._plainly(), self._changed(seen) as change:
            late = {n: kind for n, kind in columns.items() if n not in seen.columns}
            if late:
                with change.update_schema() as update:
                    update.union_by_name(pa.schema(list(late.items())))
            change.set_properties({_STATE: _text(state)})
            if files:
                add_files(change, self._paths(files))
        return self._loaded()

    def replace(self, seen: Snapshot, old: Sequence[DataFile], new: Sequence[DataFile]) -> Snapshot:
        """One snapshot without the old files and with the new ones."""
        gone = set(self._paths(old))
        with self._plainly(), self._changed(seen) as change:
            entries = [
                task.file
                for task in change._table.scan().plan_files()
                if task.file.file_path in gone
            ]
            with change.update_snapshot().overwrite() as update:
                for entry in entries:
                    update.delete_data_file(entry)
                for entry in data_files(change, self._paths(new)):
                    update.append_data_file(entry)
        return self._loaded()

    def recover(self, seen: Snapshot) -> None:
        """Nothing: a file is part of the table with the commit."""

    def forget(self, keep_s: float) -> int:
        """Old snapshots, the files that only they name, and old metadata."""
        with self._plainly():
            return shorten(self.place, keep_s)

    def _paths(self, files: Sequence[DataFile]) -> list[str]:
        return [f"{location_of(self.place)}/{file.path}" for file in files]

    def _loaded(self) -> Snapshot:
        made = self.load()
        assert made is not None, self.place
        return made

    @contextmanager
    def _changed(self, seen: Snapshot) -> Iterator[Any]:
        if not metadata_of(self.place, seen.version).exists():
            raise Conflict(f"{self.place} has many newer versions than {seen.version}")
        opened = open_table(self.place, seen.version)
        assert opened is not None, self.place
        with opened[0].transaction() as change:
            yield change

    def _snapshot(self, opened: Any, version: int) -> Snapshot:
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        try:
            state = Follow.from_json(json.loads(opened.properties[_STATE]))
        except (ValueError, KeyError, TypeError):
            raise UsageError(
                f"{self.place} is an Iceberg table that follows no topic: name another directory"
            ) from None
        schema = schema_to_pyarrow(opened.schema(), include_field_ids=False)
        columns = {f.name: plain_type(f.type) for f in schema if f.name not in OWN_COLUMNS}
        start = f"{location_of(self.place)}/"
        files = [
            DataFile(
                path=task.file.file_path.removeprefix(start),
                day=_day(task.file.partition) if state.by_day else None,
                rows=task.file.record_count,
                bytes=task.file.file_size_in_bytes,
            )
            for task in opened.scan().plan_files()
        ]
        return Snapshot(version=version, state=state, columns=columns, files=files)

    @contextmanager
    def _plainly(self) -> Iterator[None]:
        try:
            yield
        except KlammError:
            raise
        except (ValueError, OSError, NotImplementedError) as fault:
            why = without_secrets((str(fault).splitlines() or [type(fault).__name__])[0])[:500]
            is_away = isinstance(fault, OSError) and isinstance(self.place, RemotePath)
            kind = StoreAway if is_away else KlammError
            raise kind(f"the Iceberg table {self.place}: {why}") from None


def _text(state: Follow) -> str:
    return json.dumps(state.to_json(), separators=(",", ":"))


def _day(partition: Any) -> str | None:
    """The day of a partition, which Iceberg counts from 1970."""
    import datetime

    number = partition[0]
    if number is None:
        return None
    return (datetime.date(1970, 1, 1) + datetime.timedelta(days=int(number))).isoformat()


def is_iceberg(place: Place) -> bool:
    """Whether there is an Iceberg table of this layout."""
    return newest(place) is not None
