"""A table of plain Parquet files, with a log of our own.

    <table>/kafka_day=2026-11-18/0-0-5000.1f2e3d4c.parquet    what readers see
    <table>/_klamm/log/00000000000000000007.json              one file a version, put if absent
    <table>/_klamm/drafts/                                    files that wait for their commit

A log entry is the commit: it names the files it adds and the offsets it reaches. Only then the
files get their places, so that whoever lists the directory finds nothing that is not committed; a
process that dies in between is followed by one that does the rest. Every fiftieth entry names all
files, so that older ones can go. A writer who has slept for so long that the version he has seen is
gone takes his entry back: he might have put an old number anew.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import Any, Final

from klamm.model.errors import KlammError, UsageError
from klamm.pipelines.jobs.writing import StoreAway, not_written
from klamm.pipelines.places.place import Taken, put_if_absent
from klamm.pipelines.places.remote import Place, StoreFault
from klamm.pipelines.tables.ddl import Columns, text_of, type_of
from klamm.pipelines.tables.state import WORK, Conflict, DataFile, Follow, Snapshot

_LOG: Final = f"{WORK}/log"
_WHOLE_EVERY: Final = 50  # versions after which an entry has the names of all files
_KEPT: Final = 100  # entries that stay however old they are
_ENTRY_BYTES_MAX: Final = 256 << 20
_VERSION: Final = 1


class ParquetTable:
    """Files and a log."""

    format = "parquet"
    drafts: str | None = f"{WORK}/drafts"

    def __init__(self, place: Place) -> None:
        self.place = place

    def load(self) -> Snapshot | None:
        """The newest version: the last entry, and the files since one that has them all."""
        last = self._last_version()
        if last is None:
            return None
        newest = entry = self._entry(last)
        below = [entry]
        while "files" not in entry:
            entry = self._entry(entry["version"] - 1)
            below.append(entry)
        files = {f["path"]: DataFile(**f) for f in entry["files"]}
        for later in reversed(below[:-1]):
            _apply(files, later)
        return Snapshot(
            version=last,
            state=Follow.from_json(newest["state"]),
            columns={name: type_of(text) for name, text in newest["columns"]},
            files=tuple(files.values()),
        )

    @property
    def has_log(self) -> bool:
        """Whether there is such a table."""
        return self._last_version() is not None

    def create(self, state: Follow, columns: Columns) -> Snapshot:
        """Version 0."""
        return self._put(None, state, columns, (), ())

    def commit(
        self, seen: Snapshot, state: Follow, columns: Columns, files: Sequence[DataFile]
    ) -> Snapshot:
        """The entry, and then the places of its files."""
        made = self._put(seen, state, columns, files, ())
        self._publish(files, ())
        return made

    def replace(self, seen: Snapshot, old: Sequence[DataFile], new: Sequence[DataFile]) -> Snapshot:
        """As a commit; the old files go last."""
        made = self._put(seen, seen.state, seen.columns, new, old)
        self._publish(new, [file.path for file in old])
        return made

    def recover(self, seen: Snapshot) -> None:
        """Files of the last entry that have not got their places."""
        entry = self._entry(seen.version)
        self._publish([DataFile(**f) for f in entry["add"]], entry["remove"])

    def forget(self, keep_s: float) -> int:
        """Old entries, before one that names all files."""
        found = self._entries()
        last = found[-1] if found else 0
        before, count = (time.time() - keep_s) * 1000, 0
        wholes = [v for v in found if v % _WHOLE_EVERY == 0 and v <= last - _KEPT]
        bound = max((v for v in wholes if self._entry(v)["at_ms"] < before), default=0)
        for version in [v for v in found if v < bound]:  # the oldest first: no gap if it dies
            self._path(version).unlink(missing_ok=True)
            count += 1
        return count

    def _put(
        self,
        seen: Snapshot | None,
        state: Follow,
        columns: Columns,
        add: Sequence[DataFile],
        remove: Sequence[DataFile],
    ) -> Snapshot:
        version = 0 if seen is None else seen.version + 1
        entry: dict[str, Any] = {
            "klamm_table": _VERSION,
            "version": version,
            "at_ms": int(time.time() * 1000),
            "state": state.to_json(),
            "columns": [[name, text_of(kind)] for name, kind in columns.items()],
            "add": [asdict(file) for file in add],
            "remove": [file.path for file in remove],
        }
        files = {file.path: file for file in (seen.files if seen else ())}
        _apply(files, entry)
        if version % _WHOLE_EVERY == 0:
            entry["files"] = [asdict(file) for file in files.values()]
        body = json.dumps(entry | {"sha256": _seal(entry)}).encode()
        try:
            put_if_absent(self._path(version), body)
        except Taken:
            raise Conflict(f"somebody else has written version {version} of {self.place}") from None
        if seen is not None and not self._path(seen.version).exists():
            self._path(version).unlink()
            raise Conflict(f"{self.place} has many newer versions than {seen.version}")
        return Snapshot(version=version, state=state, columns=columns, files=tuple(files.values()))

    def _publish(self, add: Sequence[DataFile], remove: Sequence[str]) -> None:
        for file in add:
            target = self.place / file.path
            draft = self.place / f"{self.drafts}/{PurePosixPath(file.path).name}"
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                draft.rename(target)  # type: ignore[arg-type]  # both are of the same kind
            except FileNotFoundError:
                if not target.exists():
                    raise KlammError(f"{self.place} is damaged: {file.path} is missing") from None
            except OSError as fault:
                raise not_written(fault, target) from None
        for path in remove:
            with suppress(FileNotFoundError):
                (self.place / path).unlink()

    def _path(self, version: int) -> Place:
        return self.place / f"{_LOG}/{version:020d}.json"

    def _last_version(self) -> int | None:
        return max(self._entries(), default=None)

    def _entries(self) -> list[int]:
        """The versions whose entries are there, without a gap: older ones are forgotten."""
        try:
            names = [path.name for path in (self.place / _LOG).glob("*.json")]
        except StoreFault as fault:
            raise StoreAway(f"{self.place} cannot be read: {fault}") from None
        except OSError as fault:
            raise UsageError(f"{self.place} cannot be read: {fault.strerror}") from None
        found = sorted(int(n[:-5]) for n in names if n[:-5].isdecimal())
        start = max(
            (at for at in range(1, len(found)) if found[at] != found[at - 1] + 1), default=0
        )
        if found and found[start] % _WHOLE_EVERY:
            gap = found[start] - 1
            raise KlammError(f"{self.place} is damaged: version {gap} of its log is missing")
        return found[start:]

    def _entry(self, version: int) -> dict[str, Any]:
        path = self._path(version)
        try:
            if path.stat().st_size > _ENTRY_BYTES_MAX:
                raise KlammError(f"{path} is too large for an entry of a table's log")
            found = json.loads(path.read_bytes())
            if found["klamm_table"] > _VERSION:
                raise UsageError(f"{path} was written by a newer klamm: use that one")
            if found.pop("sha256") != _seal(found) or found["version"] != version:
                raise ValueError
            return dict(found)
        except StoreFault as fault:
            raise StoreAway(f"{path} cannot be read: {fault}") from None
        except OSError as fault:
            raise KlammError(f"{path} cannot be read: {fault.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise KlammError(f"{self.place} is damaged: {path} is not as it was written") from None


def _apply(files: dict[str, DataFile], entry: Mapping[str, Any]) -> None:
    for path in entry["remove"]:
        files.pop(path, None)
    files.update({f["path"]: DataFile(**f) for f in entry["add"]})


def _seal(entry: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()
