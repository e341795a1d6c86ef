"""Iceberg tables in directories, whatever is in them.

    <table>/metadata/v7.metadata.json   one file a version, put if absent: that is the commit
    <table>/metadata/version-hint.text  the newest of them, for readers that look there
    <table>/data/                       the files

This is the layout of Iceberg's file-system tables, so that engines open it by its path and no
catalog must run; `register_table` of any catalog takes it over by the path of the newest metadata.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from klamm.model.errors import KlammError
from klamm.pipelines.jobs.writing import write_whole
from klamm.pipelines.places.place import Taken, put_if_absent
from klamm.pipelines.places.remote import Place
from klamm.pipelines.tables.formats.packages import iceberg_properties
from klamm.pipelines.tables.state import Conflict

_METADATA: Final = re.compile(r"v(\d+)\.metadata\.json")


def location_of(place: Place) -> str:
    """The address that Iceberg's metadata has for a place."""
    return f"file://{place}" if isinstance(place, Path) else str(place)


def versions(place: Place) -> list[int]:
    """The numbers of all metadata files."""
    names = [path.name for path in (place / "metadata").glob("v*.metadata.json")]
    return sorted(int(match[1]) for name in names if (match := _METADATA.fullmatch(name)))


def newest(place: Place) -> int | None:
    """The number of the newest metadata; None where there is no table."""
    return max(versions(place), default=None)


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
    if version > 1 and not metadata_of(place, version - 1).exists():
        # Whoever slept over so many versions that his own is forgotten has put an old number anew.
        path.unlink()
        raise Conflict(f"{place} has many newer versions than {version - 1}")
    with suppress(KlammError):  # a hint: whoever finds an old one looks for newer files
        write_whole(place / "metadata/version-hint.text", str(version))


def add_files(change: Any, paths: Sequence[str]) -> None:
    """Adds files to a transaction as they lie there."""
    with change.update_snapshot().merge_append() as update:
        for entry in data_files(change, paths):
            update.append_data_file(entry)


def data_files(change: Any, paths: Sequence[str]) -> list[Any]:
    """The entries that Iceberg keeps of files, from their footers."""
    from pyiceberg.io.pyarrow import parquet_file_to_data_file

    describe: Callable[..., Any] = parquet_file_to_data_file
    return [describe(change._table.io, change.table_metadata, path) for path in paths]
