"""The history of an Iceberg table, and how it is kept short.

Each commit writes a metadata file that lists every snapshot, so a history without an end makes each
commit dearer than the one before. Snapshots that are older than readers need leave the list; then
the files go that only they named. Snapshots of a table that one program writes are a chain: what is
in an old one and not in the oldest that stays is in no later one either.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from klamm.pipelines.places.remote import Place, files_below, relative
from klamm.pipelines.tables.formats.iceberg_place import (
    location_of,
    metadata_of,
    open_table,
    versions,
)
from klamm.pipelines.tables.state import DATA_FILE, MARGIN_S

METADATA_KEPT: Final = 20  # files of metadata; each lists all snapshots
SNAPSHOTS_MAX: Final = 10_000  # however young they are


def shorten(place: Place, keep_s: float) -> int:
    """Forgets what is older; says how many files went."""
    opened = open_table(place)
    if opened is None:
        return 0
    table, version = opened
    gone: set[str] = set()
    old = _old_snapshots(table.metadata, keep_s)
    if old:
        gone = _only_in(table, old)
        ids = [snapshot.snapshot_id for snapshot in old]
        table.maintenance.expire_snapshots().by_ids(ids).commit()
        version += 1
        table = open_table(place, version)[0]  # type: ignore[index]  # it has just been put
    gone |= set(_left_over(place, table, keep_s))
    start = f"{location_of(place)}/"
    paths = [place / path.removeprefix(start) for path in sorted(gone) if path.startswith(start)]
    paths += [
        metadata_of(place, each) for each in versions(place) if each <= version - METADATA_KEPT
    ]
    return _removed(paths)


def _old_snapshots(metadata: Any, keep_s: float) -> list[Any]:
    """Snapshots that no reader needs: all before the first that stays, in the order of the log."""
    named = {ref.snapshot_id for ref in metadata.refs.values()}
    before = (time.time() - keep_s) * 1000
    chain = sorted(metadata.snapshots, key=lambda snapshot: snapshot.sequence_number or 0)
    found: list[Any] = []
    for at, snapshot in enumerate(chain):
        too_many = len(chain) - at > SNAPSHOTS_MAX
        if snapshot.snapshot_id in named or not (snapshot.timestamp_ms < before or too_many):
            break
        found.append(snapshot)
    return found


def _only_in(table: Any, old: Sequence[Any]) -> set[str]:
    """Every file that these snapshots name and none that stays."""
    first = _oldest_but(table.metadata, old)
    kept = {m.manifest_path: m for m in first.manifests(table.io)}
    lost = {m.manifest_path: m for s in old for m in s.manifests(table.io)}
    live = _data_of(table, kept.values())
    dropped = [manifest for path, manifest in lost.items() if path not in kept]
    found = {path for path in _data_of(table, dropped) if path not in live}
    return found | {m.manifest_path for m in dropped} | {s.manifest_list for s in old}


def _oldest_but(metadata: Any, old: Sequence[Any]) -> Any:
    ids = {snapshot.snapshot_id for snapshot in old}
    stay = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in ids]
    return min(stay, key=lambda snapshot: snapshot.sequence_number or 0)


def _data_of(table: Any, manifests: Iterable[Any]) -> set[str]:
    return {
        entry.data_file.file_path
        for manifest in manifests
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    }


def _left_over(place: Place, table: Any, keep_s: float) -> Iterator[str]:
    """Data of rounds that were broken off: named as klamm names files, old, in no snapshot.

    What is in neither the oldest snapshot nor the newest, and was in one between them, is younger
    than the oldest.
    """
    metadata = table.metadata
    if not metadata.snapshots:
        return
    ends = [_oldest_but(metadata, ()), metadata.current_snapshot()]
    live = _data_of(
        table, {m.manifest_path: m for s in ends for m in s.manifests(table.io)}.values()
    )
    oldest = min(time.time() - keep_s, ends[0].timestamp_ms / 1000) - MARGIN_S
    for path in files_below(place / "data"):
        address = f"{location_of(place)}/{relative(path, place)}"
        if address in live or not DATA_FILE.fullmatch(relative(path, place)):
            continue
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < oldest:
                yield address


def _removed(paths: Iterable[Place]) -> int:
    count = 0
    for path in paths:
        with suppress(FileNotFoundError):
            path.unlink()
            count += 1
    return count
