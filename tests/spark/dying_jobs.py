"""What `dying` ends: a command that a user types, and what a task of Spark does."""

from __future__ import annotations

from pathlib import Path

from klamm.cli.__main__ import main
from klamm.pipelines.archive.files import ArchiveJob as WindowJob
from klamm.pipelines.archive.files import archive_window
from klamm.pipelines.archive.restore_partition import RestoreJob as PartitionJob
from klamm.pipelines.archive.restore_partition import restore_partition
from klamm.pipelines.audit.findings import put_in_place
from klamm.pipelines.source.options import ReadOptions
from klamm.pipelines.source.ranges import Range, StreamOffsets
from klamm.pipelines.source.stream import Stream

from .dying import Gateway, session_at


def command(gateway: Gateway, *line: str) -> None:
    """A command line, on the Spark that is there."""
    session_at(gateway)
    if code := main([*line, "-o", "json"]):
        raise SystemExit(code)


def command_alone(*line: str) -> None:
    """A command line whose work is small enough for this process."""
    if code := main([*line, "-o", "json"]):
        raise SystemExit(code)


def window(job: WindowJob, wanted: Range) -> None:
    """A task of an archive."""
    archive_window(job, wanted)


def partition(job: PartitionJob, number: int) -> None:
    """A task of a restore."""
    restore_partition(job, number)


def tables(fresh: Path, to: Path) -> None:
    """The last thing that an audit does with its tables."""
    put_in_place(fresh, to)


def first_offsets(options: ReadOptions) -> None:
    """The first thing that a stream does."""
    Stream(options).first()


def commit(options: ReadOptions, end: StreamOffsets) -> None:
    """What a stream tells its group."""
    Stream(options).commit(end)
