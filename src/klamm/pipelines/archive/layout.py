"""Describes an archive on disk, and which of its parts count.

    <root>/<cluster id>/<topic>/<topic id>/
        data/partition=0/<first>-<last>.<checksum>.parquet
        groups.<attempt>.parquet   topic.<attempt>.json
        manifest.json                       written last

The manifest alone says which files count, with a checksum of each and one of itself. A file is
written under another name and renamed when it is whole; no run writes over a file of an earlier
one, whose manifest stays true until the next takes its place. A data file carries its own
description in its footer and the beginning of its checksum in its name, so that a run that was
broken off is taken up where it stopped. What no manifest names is an orphan, which `vacuum`
removes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeVar

from klamm.model.errors import KlammError, UsageError
from klamm.pipelines.jobs.writing import write_whole
from klamm.pipelines.places.place import put_after, sha256_of
from klamm.pipelines.places.remote import Place, place_of
from klamm.pipelines.records.digests import combined

T = TypeVar("T")

MANIFEST: Final = "manifest.json"
VERSION: Final = 1
ROWS: Final = "rows"  # the mode of an archive that holds a row a record
FOOTER: Final = b"klamm.window"
WINDOW_OFFSETS: Final = 1 << 20  # one file holds so many offsets, at most
_WINDOW_OFFSETS_MIN: Final = 1 << 10
_FILE_BYTES: Final = 512 << 20  # and about so many bytes
_GAPS_MAX: Final = 1000
_NAME_MAX: Final = 249
_NAME: Final = re.compile(rf"[A-Za-z0-9._~+=-]{{1,{_NAME_MAX}}}")
_PATH_MAX: Final = 1024
_MANIFEST_BYTES_MAX: Final = 256 << 20
_PART_BYTES_MAX: Final = 64 << 20
_TIME_END_MS: Final = 253_402_300_800_000  # the year 10000, which no clock of ours can show


@dataclass(frozen=True, slots=True)
class Window:
    """The range of one file: offsets [first, stop) of a partition."""

    partition: int
    first: int
    stop: int

    @property
    def stem(self) -> str:
        """The file's name without attempt and ending."""
        return f"{self.first:018d}-{self.stop - 1:018d}"

    @property
    def directory(self) -> Path:
        """The directory of the file under `data/`."""
        return Path("data") / f"partition={self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One data file, as its footer and the manifest describe it."""

    path: str
    partition: int
    first: int
    last: int
    rows: int
    records: int
    bytes: int
    sha256: str
    digests: Mapping[str, str]
    gaps: Sequence[Sequence[int]]
    gap_offsets: int
    time_min: int = -1
    time_max: int = -1


@dataclass(frozen=True, slots=True)
class Part:
    """A file beside the data, with its checksum."""

    path: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEntry:
    """One partition in the manifest."""

    log_start: int
    end: int
    rows: int
    records: int
    gap_offsets: int
    gaps: Sequence[Sequence[int]] | None  # None: too many to list
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The authority on an archive."""

    cluster: str
    topic: str
    topic_id: str
    partitions: Mapping[str, PartitionEntry]
    files: Sequence[File]
    settings: Part  # what the topic was: partitions, configs, assignments
    groups: Part  # what consumer groups had committed
    schema_fingerprint: str
    writer: str
    created_ms: int
    version: int = VERSION
    mode: str = ROWS
    state: str = "complete"
    path: Place = field(default=Path(), compare=False)

    @property
    def records(self) -> int:
        """All records that readers would see."""
        return sum(p.records for p in self.partitions.values())

    @property
    def bytes(self) -> int:
        """The size of all data files."""
        return sum(f.bytes for f in self.files)

    def files_of(self, partition: int) -> list[File]:
        """The files of one partition in the order of offsets."""
        return sorted((f for f in self.files if f.partition == partition), key=lambda f: f.first)

    def write(self, *, instead_of: Any = None) -> Place:
        """Commits the archive; in a store, in the place of the manifest with this mark."""
        body = {k: v for k, v in asdict(self).items() if k != "path"}
        text = json.dumps(body | {"sha256": _seal(body)}, indent=1)
        target = self.path / MANIFEST
        if isinstance(target, Path):
            write_whole(target, text)
        else:
            put_after(target, text, instead_of)
        return target


def read_part(manifest: Manifest, part: Part) -> bytes:
    """The content of a file beside the data, if it is what was written."""
    if fault := part_fault(manifest, part):
        raise KlammError(f"the archive is damaged: {fault}")
    return below(manifest.path, part.path).read_bytes()


def part_fault(manifest: Manifest, part: Part) -> str | None:
    """The fault of a file beside the data."""
    path = manifest.path / part.path
    try:
        below(manifest.path, part.path)
        if (size := path.stat().st_size) > _PART_BYTES_MAX:
            return f"{path} has {size:,} bytes, and {_PART_BYTES_MAX:,} would be many"
        return None if sha256(path) == part.sha256 else f"{path} is not as it was written"
    except FileNotFoundError:
        return f"{path} is missing"
    except OSError as fault:
        return f"{path} cannot be read: {fault.strerror}"


def _seal(body: Mapping[str, Any]) -> str:
    """The checksum of a manifest's content, however it is laid out."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def new_name(stem: str, suffix: str) -> str:
    """A file name that no other attempt has."""
    return f"{stem}.{os.urandom(4).hex()}.{suffix}"


def data_name(window: Window, checksum: str) -> str:
    """The name of a data file: attempts that gave the same bytes share it."""
    return f"{window.stem}.{checksum[:8]}.parquet"


def attempt_of(name: str) -> str:
    """The part of a data file's name that tells attempts apart."""
    return name.split(".")[-2]


def directory_of(root: str | Place, cluster: str, topic: str, topic_id: str) -> Place:
    """The directory of this topic's archive."""
    place = place_of(root)
    for what, name in (("cluster id", cluster), ("topic name", topic), ("topic id", topic_id)):
        place = place / path_name(what, name)
    return place


def path_name(what: str, name: str) -> str:
    """A name that somebody else has chosen, if it can be one of a directory; '' makes none."""
    if name and (not _NAME.fullmatch(name) or not name.strip(".")):
        raise KlammError(f"the {what} {name[:_NAME_MAX]!r} of the cluster cannot name a directory")
    return name


def below(directory: Place, name: str) -> Place:
    """The file of this name in an archive; KlammError where a link leads out of it."""
    path = directory / name
    if isinstance(path, Path) and not path.resolve().is_relative_to(Path(str(directory)).resolve()):
        raise KlammError(f"the archive is damaged: {path} leads out of it")
    return path


def plan_windows(
    partition: int, log_start: int, end: int, size: int = WINDOW_OFFSETS
) -> list[Window]:
    """Windows that tile [log_start, end), cut at multiples of the size."""
    edges = [log_start, *range((log_start // size + 1) * size, end, size), end]
    return [Window(partition, first, stop) for first, stop in pairwise(edges) if stop > first]


def fitting_window(bytes_per_offset: float) -> int:
    """The number of offsets one file should hold of a partition with records of this size.

    A power of two: records that become a little larger do not move every window, which would make
    all files of an earlier run useless.
    """
    size = WINDOW_OFFSETS
    while size > _WINDOW_OFFSETS_MIN and size * bytes_per_offset > _FILE_BYTES:
        size //= 2
    return size


def read_manifest(directory: Place) -> Manifest:
    """The manifest of one archive; what is not whole is not an archive."""
    path = directory / MANIFEST
    try:
        if (size := path.stat().st_size) > _MANIFEST_BYTES_MAX:
            raise KlammError(f"{path} has {size:,} bytes, which is no manifest of an archive")
        text = path.read_text()
    except FileNotFoundError:
        raise UsageError(f"{directory} holds no archive: there is no {MANIFEST} in it") from None
    except (OSError, ValueError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else "it is no text"
        raise KlammError(f"{path} cannot be read: {why}") from None
    try:
        return _manifest_of(json.loads(text), path)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise KlammError(f"{path} is damaged, or no manifest of an archive") from None


def _manifest_of(found: Any, path: Place) -> Manifest:
    version = found["version"]
    if type(version) is int and version > VERSION:
        raise UsageError(
            f"{path} is of format {version}, and this klamm knows {VERSION}: use a newer klamm"
        )
    if (
        type(version) is not int
        or found.pop("sha256") != _seal(found)
        or found["state"] != "complete"
    ):
        raise ValueError
    found["files"] = [_value(File, f) for f in found["files"]]
    found["partitions"] = {p: _value(PartitionEntry, e) for p, e in found["partitions"].items()}
    for name in ("settings", "groups"):
        found[name] = _value(Part, found[name])
    manifest = _value(Manifest, {**found, "path": path.parent.absolute()})
    if manifest.mode != ROWS:
        raise UsageError(f"{path} holds {manifest.mode!r}, and this klamm reads archives of rows")
    paths = [f.path for f in manifest.files] + [manifest.settings.path, manifest.groups.path]
    if not all(map(_is_number, manifest.partitions)) or not all(map(_is_below, paths)):
        raise ValueError
    if not 0 <= manifest.created_ms < _TIME_END_MS:
        raise ValueError
    return manifest


_PLAIN: Final[Mapping[str, type]] = {"int": int, "str": str}


def _value(kind: type[T], found: Mapping[str, Any]) -> T:
    """A value of a class, if what is plain in it is what the class says.

    A checksum tells that nobody has changed what was written, not that it makes sense.
    """
    made = kind(**found)
    for each in fields(kind):  # type: ignore[arg-type]
        wanted = _PLAIN.get(str(each.type))
        if wanted is not None and type(getattr(made, each.name)) is not wanted:
            raise TypeError
    if isinstance(made, File):
        numbers = {type(number) for first, last in made.gaps for number in (first, last)}
        texts = {type(text) for text in made.digests.values()}
        if not (numbers <= {int} and texts <= {str} and all(map(str.isdecimal, made.digests))):
            raise TypeError
    return made


def _is_below(path: str) -> bool:
    """Whether a path leads to nowhere but into the archive."""
    found = PurePosixPath(path)
    is_plain = len(path) <= _PATH_MAX and path.isprintable() and "\\" not in path
    return is_plain and bool(found.parts) and not found.is_absolute() and ".." not in found.parts


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 10


def manifest_faults(manifest: Manifest) -> list[str]:
    """The contradictions in a manifest: files, offsets, numbers and digests."""
    faults = []
    for partition, entry in manifest.partitions.items():
        own = manifest.files_of(int(partition))
        try:
            told = entry_of(entry.log_start, entry.end, own, digest_of(own))
        except UsageError as fault:
            faults.append(f"partition {partition}: {fault}")
            continue
        if told != entry:
            faults.append(f"partition {partition}: the manifest and its files differ")
    strangers = {str(f.partition) for f in manifest.files} - manifest.partitions.keys()
    return faults + [f"partition {p} is in files only" for p in sorted(strangers)]


def digest_of(files: Sequence[File]) -> str:
    """The digest of a partition, by those of its files."""
    return combined([(f.first, int(n), text) for f in files for n, text in f.digests.items()])


def sha256(path: Place) -> str:
    """The checksum of a whole file."""
    return sha256_of(path)


def entry_of(log_start: int, end: int, files: Sequence[File], digest: str) -> PartitionEntry:
    """A partition's entry, after checking that its files tell the whole story."""
    ordered = sorted(files, key=lambda f: f.first)
    position = log_start
    for file in ordered:
        if file.first != position:
            raise UsageError(f"offsets {position} to {file.first - 1} are in no file")
        position = file.last + 1
    if position != end and end > log_start:
        raise UsageError(f"offsets {position} to {end - 1} are in no file")
    gaps = [gap for file in ordered for gap in file.gaps]
    rows, gap_offsets = sum(f.rows for f in ordered), sum(f.gap_offsets for f in ordered)
    if rows + gap_offsets != end - log_start:
        raise UsageError(
            f"{rows} rows and {gap_offsets} gaps do not add up to {end - log_start} offsets"
        )
    return PartitionEntry(
        log_start=log_start,
        end=end,
        rows=rows,
        records=sum(f.records for f in ordered),
        gap_offsets=gap_offsets,
        gaps=gaps if len(gaps) <= _GAPS_MAX else None,
        digest=digest,
    )


def footer_of(file: File, topic_id: str) -> dict[bytes, bytes]:
    """The description that a data file carries itself."""
    body: dict[str, Any] = asdict(file)
    for name in ("path", "bytes", "sha256"):
        del body[name]
    return {FOOTER: json.dumps(body | {"topic_id": topic_id}).encode()}
