"""An Iceberg table in a directory, by `pyiceberg`.

    <table>/metadata/v7.metadata.json   one file a version, put if absent: that is the commit
    <table>/metadata/version-hint.text  the newest of them, for readers that look there
    <table>/data/                       the files

This is the layout of Iceberg's file-system tables, so that engines open it by its path and no
catalog must run; `register_table` of any catalog takes it over by the path of the newest metadata.
The state of a follow is in the summary of each snapshot and in the table's properties, set in the
same commit: the summary of an old snapshot goes when snapshots expire, the properties stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from klamm.model.errors import KlammError, UsageError
from klamm.pipelines.jobs.writing import write_whole
from klamm.pipelines.places.place import Taken, put_if_absent
from klamm.pipelines.places.remote import Place, without_secrets
from klamm.pipelines.tables.ddl import Columns
from klamm.pipelines.tables.formats.packages import iceberg_properties, require_iceberg
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
_METADATA: Final = re.compile(r"v(\d+)\.metadata\.json")


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
                add_files(change, self._paths(files), {_STATE: _text(state)})
        return self._loaded()

    def replace(self, seen: Snapshot, old: Sequence[DataFile], new: Sequence[DataFile]) -> Snapshot:
        """One snapshot without the old files and with the new ones."""
        gone = set(self._paths(old))
        with self._plainly(), self._changed(seen) as change:
            properties = {_STATE: _text(seen.state)}
            entries = [
                task.file
                for task in change._table.scan().plan_files()
                if task.file.file_path in gone
            ]
            with change.update_snapshot(snapshot_properties=properties).overwrite() as update:
                for entry in entries:
                    update.delete_data_file(entry)
                for entry in _data_files(change, self._paths(new)):
                    update.append_data_file(entry)
        return self._loaded()

    def recover(self, seen: Snapshot) -> None:
        """Nothing: a file is part of the table with the commit."""

    def _paths(self, files: Sequence[DataFile]) -> list[str]:
        return [f"{location_of(self.place)}/{file.path}" for file in files]

    def _loaded(self) -> Snapshot:
        made = self.load()
        assert made is not None, self.place
        return made

    @contextmanager
    def _changed(self, seen: Snapshot) -> Iterator[Any]:
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
            raise KlammError(f"the Iceberg table {self.place}: {why}") from None


def _text(state: Follow) -> str:
    return json.dumps(state.to_json(), separators=(",", ":"))


def _day(partition: Any) -> str | None:
    """The day of a partition, which Iceberg counts from 1970."""
    import datetime

    number = partition[0]
    if number is None:
        return None
    return (datetime.date(1970, 1, 1) + datetime.timedelta(days=int(number))).isoformat()


# Iceberg tables in directories, whatever is in them.


def location_of(place: Place) -> str:
    """The address that Iceberg's metadata has for a place."""
    return f"file://{place}" if isinstance(place, Path) else str(place)


def newest(place: Place) -> int | None:
    """The number of the newest metadata; None where there is no table."""
    names = [path.name for path in (place / "metadata").glob("v*.metadata.json")]
    found = [int(match[1]) for name in names if (match := _METADATA.fullmatch(name))]
    return max(found, default=None)


def metadata_of(place: Place, version: int) -> Place:
    """The place of a version's metadata."""
    return place / f"metadata/v{version}.metadata.json"


def open_table(place: Place, version: int | None = None) -> tuple[Any, int] | None:
    """A table at a version, or as it is now, and the version's number."""
    from pyiceberg.io import load_file_io
    from pyiceberg.serializers import FromInputFile
    from pyiceberg.table import Table

    number = newest(place) if version is None else version
    if number is None:
        return None
    location = f"{location_of(place)}/metadata/v{number}.metadata.json"
    io = load_file_io(iceberg_properties(place), location)
    metadata = FromInputFile.table_metadata(io.new_input(location))
    catalog: Any = _catalog(place, number)
    return Table(("klamm", place.name or "table"), metadata, location, io, catalog), number


def _catalog(place: Place, seen: int) -> Any:
    """The catalog that pyiceberg commits through: the next metadata file, put if absent."""
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.table import CommitTableResponse
    from pyiceberg.table.update import update_table_metadata

    class DirectoryCatalog(NoopCatalog):
        """Knows one table, and its directory."""

        def commit_table(self, table: Any, requirements: Any, updates: Any) -> Any:
            for requirement in requirements:
                requirement.validate(table.metadata)
            made = update_table_metadata(table.metadata, updates, metadata_location=None)
            _put(place, seen + 1, made)
            location = f"{location_of(place)}/metadata/v{seen + 1}.metadata.json"
            told: dict[str, Any] = {"metadata": made, "metadata-location": location}
            return CommitTableResponse(**told)

    return DirectoryCatalog("klamm")


def create_table(
    place: Place,
    schema: Any,
    properties: dict[str, str],
    *,
    day_of: str | None = None,
    by: str | None = None,
) -> None:
    """A table without files, partitioned by a column or its day; Conflict where there is one."""
    from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import assign_fresh_schema_ids
    from pyiceberg.table import TableProperties
    from pyiceberg.table.metadata import new_table_metadata
    from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
    from pyiceberg.transforms import DayTransform, IdentityTransform

    fresh = assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(schema))
    fields = []
    if day_of is not None:
        source = fresh.find_field(day_of).field_id
        fields = [PartitionField(source, 1000, DayTransform(), f"{day_of}_day")]
    elif by is not None:
        source = fresh.find_field(by).field_id
        fields = [PartitionField(source, 1000, IdentityTransform(), by)]
    mapping = fresh.name_mapping.model_dump_json()
    metadata = new_table_metadata(
        schema=fresh,
        partition_spec=PartitionSpec(*fields),
        sort_order=UNSORTED_SORT_ORDER,
        location=location_of(place),
        properties=properties
        | {
            TableProperties.DEFAULT_NAME_MAPPING: mapping,
            TableProperties.MANIFEST_MERGE_ENABLED: "true",
        },
    )
    _put(place, 1, metadata)


def _put(place: Place, version: int, metadata: Any) -> None:
    path = metadata_of(place, version)
    try:
        put_if_absent(path, metadata.model_dump_json().encode())
    except Taken:
        raise Conflict(f"somebody else has written version {version} of {place}") from None
    with suppress(KlammError):  # a hint: whoever finds an old one looks for newer files
        write_whole(place / "metadata/version-hint.text", str(version))


def add_files(change: Any, paths: Sequence[str], properties: dict[str, str]) -> None:
    """Adds files to a transaction as they lie there."""
    with change.update_snapshot(snapshot_properties=properties).merge_append() as update:
        for entry in _data_files(change, paths):
            update.append_data_file(entry)


def _data_files(change: Any, paths: Sequence[str]) -> list[Any]:
    """The entries that Iceberg keeps of files, from their footers."""
    from pyiceberg.io.pyarrow import parquet_file_to_data_file

    describe: Callable[..., Any] = parquet_file_to_data_file
    return [describe(change._table.io, change.table_metadata, path) for path in paths]


def is_iceberg(place: Place) -> bool:
    """Whether there is an Iceberg table of this layout."""
    return newest(place) is not None
