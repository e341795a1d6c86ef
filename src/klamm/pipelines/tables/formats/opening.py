"""Opens a table of any format."""

from __future__ import annotations

from klamm.model.errors import UsageError
from klamm.pipelines.jobs.writing import StoreAway
from klamm.pipelines.places.remote import Place, StoreFault
from klamm.pipelines.tables.formats.delta import DeltaFormat, is_delta
from klamm.pipelines.tables.formats.iceberg import IcebergFormat, is_iceberg
from klamm.pipelines.tables.formats.parquet import ParquetTable
from klamm.pipelines.tables.state import Snapshot, Table


def table_at(place: Place, wanted: str) -> Table:
    """A table of this format, which may not be there yet; no other format may be there."""
    found = format_at(place)
    if found is not None and found != wanted:
        raise UsageError(f"{place} holds a table of the format {found}, not {wanted}")
    match wanted:
        case "delta":
            return DeltaFormat(place)
        case "iceberg":
            return IcebergFormat(place)
    return ParquetTable(place)


def format_at(place: Place) -> str | None:
    """The format of the table in a place; None where there is none."""
    try:
        if is_delta(place):
            return "delta"
        if is_iceberg(place):
            return "iceberg"
        return "parquet" if ParquetTable(place).has_log else None
    except StoreFault as fault:
        raise StoreAway(f"{place} cannot be read: {fault}") from None


def existing(place: Place) -> tuple[Table, Snapshot]:
    """The table in a place, whatever its format is."""
    found = format_at(place)
    if found is None:
        raise UsageError(f"{place} holds no table that follows a topic")
    table = table_at(place, found)
    snapshot = table.load()
    assert snapshot is not None, place
    return table, snapshot
