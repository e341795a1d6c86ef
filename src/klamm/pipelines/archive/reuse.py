"""Files that an earlier run has finished, and whether they may be kept.

A file may be kept if it is as it was written and the topic still holds just what is in it. The
first is told by the manifest that names the file or, where none does, by its own name, which has
the beginning of its checksum in it. So a damaged file is written again, and not taken up for ever.

As to the second, nobody changes records under a leader epoch: a partition that has the last row of
a file at its offset and of its epoch has all the rows before it as well, which is the rule by which
followers know where they differ from their leader. It does not hold where logs are compacted, for
there records go from the middle: a file of long ago would bring keys back that were deleted since.
There the records are read, and their digests compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from klamm.pipelines.archive.files import (
    GROUP_BYTES_MAX,
    ArchiveJob,
    Unreadable,
    refuse_bomb,
    window_frames,
)
from klamm.pipelines.archive.layout import FOOTER, File, Window, attempt_of, sha256
from klamm.pipelines.places.place import for_arrow
from klamm.pipelines.places.remote import Place, place_of, relative
from klamm.pipelines.records.digests import Digests
from klamm.pipelines.source.ranges import Range


def kept(job: ArchiveJob, wanted: Range) -> File | None:
    """A file of this window that need not be written again."""
    directory = place_of(job.directory)
    for path in _candidates(directory, wanted):
        name = relative(path, directory)
        if name in job.checked:
            return job.checked[name]
        file = _described(path, name, job)
        if file is not None and _is_current(job, wanted, file):
            return file
    return None


def _candidates(directory: Place, wanted: Range) -> Iterator[Place]:
    window = Window(wanted.partition, wanted.start, wanted.stop)
    found: Iterable[Place] = (directory / window.directory).glob(f"{window.stem}.*.parquet")
    yield from sorted(found, key=str)


def _described(path: Place, name: str, job: ArchiveJob) -> File | None:
    """The description that a file gives of itself, if it is complete."""
    try:
        metadata = pq.read_metadata(for_arrow(path))
        found = json.loads((metadata.metadata or {})[FOOTER])
        total = sha256(path)
        is_whole = total.startswith(job.named.get(name) or attempt_of(name))
        if not is_whole or found.pop("topic_id") != job.topic_id:
            return None
        refuse_bomb(path, metadata, found["rows"], GROUP_BYTES_MAX)
        return File(path=name, bytes=path.stat().st_size, sha256=total, **found)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    except (Unreadable, pa.ArrowException):
        return None  # whatever it is, it is none of ours


def _is_current(job: ArchiveJob, wanted: Range, file: File) -> bool:
    if job.compacted or not file.rows:
        return _digests(job, wanted) == file.digests
    offset, epoch = _last_row(place_of(job.directory) / file.path)
    tail = replace(wanted, start=offset, stop=offset + 1)
    epochs = [e for f in window_frames(job.connection, tail) for e in f["leader_epoch"].to_pylist()]
    return epochs == [epoch]


def _digests(job: ArchiveJob, wanted: Range) -> dict[str, str]:
    digests = Digests()
    for frame in window_frames(job.connection, wanted):
        digests.add(frame)
    return digests.named()


def _last_row(path: Place) -> tuple[int, int]:
    with pq.ParquetFile(for_arrow(path)) as file:
        last = file.read_row_group(file.num_row_groups - 1, columns=["offset", "leader_epoch"])
    return last["offset"][-1].as_py(), last["leader_epoch"][-1].as_py()
