"""Archives as tables of Delta or Iceberg, without a copy: the files stay where they are.

The table's own log is put beside them, in the archive's directory. An archive that has grown is
registered again: files that it has no more leave the table, new ones join it, in one commit.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from klamm.model.errors import KlammError
from klamm.pipelines.archive.files import SCHEMA
from klamm.pipelines.archive.layout import File, Manifest
from klamm.pipelines.places.remote import without_secrets
from klamm.pipelines.tables.formats.iceberg_place import create_table, location_of, open_table
from klamm.pipelines.tables.formats.packages import (
    delta_options,
    require_delta,
    require_iceberg,
)

_PARTITION: Final = "partition"
_TABLE: Final = pa.schema([*SCHEMA, (_PARTITION, pa.int32())])


@dataclass(frozen=True, slots=True)
class Registered:
    """The result: the table's version, and files that joined and left it."""

    version: int
    added: int
    removed: int


def register(manifest: Manifest, table_format: str) -> Registered:
    """Makes an archive a table, or brings the table up to date."""
    try:
        return _delta(manifest) if table_format == "delta" else _iceberg(manifest)
    except KlammError:
        raise
    except Exception as fault:
        if type(fault).__module__.partition(".")[0] not in _FOREIGN and not isinstance(
            fault, OSError | ValueError
        ):
            raise
        why = without_secrets((str(fault).splitlines() or [type(fault).__name__])[0])[:500]
        raise KlammError(f"{manifest.path} cannot be registered: {why}") from None


_FOREIGN: Final = frozenset({"deltalake", "_internal", "pyiceberg"})


def _differences(there: Sequence[str], files: Sequence[File]) -> tuple[list[File], list[str]]:
    named, known = {file.path for file in files}, set(there)
    return [f for f in files if f.path not in known], sorted(known - named)


def _delta(manifest: Manifest) -> Registered:
    require_delta()
    from deltalake import DeltaTable, Schema
    from deltalake.transaction import create_table_with_add_actions

    place, options = str(manifest.path), delta_options(manifest.path)
    if not DeltaTable.is_deltatable(place, options):
        create_table_with_add_actions(
            place,
            Schema.from_arrow(_TABLE),
            [_action(file) for file in manifest.files],
            mode="error",
            partition_by=[_PARTITION],
            name=manifest.topic,
            description=f"archive of {manifest.topic} ({manifest.topic_id})",
            storage_options=options,
        )
        return Registered(0, len(manifest.files), 0)
    opened = DeltaTable(place, storage_options=options)
    rows = pa.table(opened.get_add_actions(flatten=True)).to_pylist()
    adding, removing = _differences([row["path"] for row in rows], manifest.files)
    if adding or removing:
        gone = {row["path"]: row for row in rows}
        actions: list[Any] = [_action(file) for file in adding]
        actions += [_removal(path, gone[path]) for path in removing]
        opened.create_write_transaction(actions, "append", opened.schema(), [_PARTITION])
        opened = DeltaTable(place, storage_options=options)
    return Registered(opened.version(), len(adding), len(removing))


def _action(file: File) -> Any:
    from deltalake.transaction import AddAction

    stats = {"numRecords": file.rows}
    ends = {"minValues": {"offset": file.first}, "maxValues": {"offset": file.last}}
    return AddAction(
        path=file.path,
        size=file.bytes,
        partition_values={_PARTITION: str(file.partition)},
        modification_time=0,
        data_change=True,
        stats=json.dumps(stats | ends),
    )


def _removal(path: str, row: Any) -> Any:
    from deltalake.transaction import RemoveAction

    return RemoveAction(
        path=path,
        deletion_timestamp=0,
        data_change=True,
        partition_values={_PARTITION: str(row[f"partition.{_PARTITION}"])},
        size=row["size_bytes"],
    )


def _iceberg(manifest: Manifest) -> Registered:
    require_iceberg()
    place = manifest.path
    start = f"{location_of(place)}/"
    if (opened := open_table(place)) is None:
        create_table(place, _TABLE, {"klamm.archive": manifest.topic}, by=_PARTITION)
        opened = open_table(place)
        assert opened is not None, place
    table, version = opened
    there = {t.file.file_path.removeprefix(start): t.file for t in table.scan().plan_files()}
    adding, removing = _differences(list(there), manifest.files)
    if not adding and not removing:
        return Registered(version, 0, 0)
    # An archive's files have statistics of two columns, and Iceberg warns of each other one.
    logging.getLogger("pyiceberg.io.pyarrow").setLevel(logging.ERROR)
    with table.transaction() as change, change.update_snapshot().overwrite() as update:
        for path in removing:
            update.delete_data_file(there[path])
        for file in adding:
            update.append_data_file(_data_file(change, f"{start}{file.path}", file.partition))
    return Registered(version + 1, len(adding), len(removing))


def _data_file(change: Any, path: str, partition: int) -> Any:
    """The entry that Iceberg keeps of a file; its partition is in its path, and not in its rows."""
    import pyarrow.parquet as pq
    from pyiceberg.io.pyarrow import (
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
    )
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    metadata = change.table_metadata
    schema = metadata.schema()
    source = change._table.io.new_input(path)
    with source.open() as opened:
        footer = pq.read_metadata(opened)
    mapping = parquet_path_to_id_mapping(schema)
    statistics = data_file_statistics_from_parquet_metadata(
        parquet_metadata=footer,
        stats_columns=compute_statistics_plan(schema, metadata.properties),
        parquet_column_mapping=mapping,
    )
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(partition),
        file_size_in_bytes=len(source),
        sort_order_id=None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics.to_serialized_dict(),
    )
