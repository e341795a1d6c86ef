"""Bringing a partition's log back from its directory.

After a clean stop the checkpoints are right: the log ends at its recovery point, its indexes are
complete, and nothing but names and sizes is read until somebody asks for more. That is what lets
ten thousand logs load in a second or two. Logs of a few records may have been left without indexes
and epochs, and are looked through.

After a crash everything from the recovery point on is in doubt. It is read batch by batch, sums
checked, and what can be derived is derived again: indexes, epochs, producers, aborted
transactions. At the first byte that is not right the log ends; what may lie behind was never
flushed, so it was never promised by this disk alone.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from dataclasses import dataclass, field

from klamm.log.disk import names
from klamm.log.disk.checkpoints import CheckpointCorrupt, Extent, read_epochs, read_topic_id
from klamm.log.disk.failure import Damage, Health, LogRefused
from klamm.log.disk.files import FilePool, remove_files, sync_directory
from klamm.log.durability import BARE_MAX
from klamm.log.epochs import EpochCache
from klamm.log.partition import PartitionLog
from klamm.log.producers.snapshots import Snapshots
from klamm.log.producers.tracking import ProducerStates, follow
from klamm.log.segments.batches import is_intact, whole_batches
from klamm.log.segments.segment import Segment
from klamm.log.segments.series import SegmentList
from klamm.log.settings import LogSettings
from klamm.model.names import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The entries of the directory's checkpoints about one log."""

    clean: bool = False  # whether the last stop was a clean one
    recovery_point: int | None = None
    log_start: int = 0
    high_watermark: int = 0
    extent: Extent | None = None  # the files at that stop
    missed_end: int = 0  # that an earlier start did not find, and nobody has made up for


@dataclass(slots=True)
class _Files:
    """The files of one partition's directory that belong to its log."""

    sizes: dict[int, int] = field(default_factory=dict)  # of the .log files, by base offset
    indexes: dict[int, list[str]] = field(default_factory=dict)
    snapshots: list[int] = field(default_factory=list)
    has_swaps: bool = False


def load_log(
    topic_partition: TopicPartition,
    directory: str,
    settings: LogSettings,
    pool: FilePool,
    known: Known,
    *,
    health: Health | None = None,
) -> PartitionLog:
    """The log in a directory, fit for use; LogRefused where it is no log's."""
    files = _tidy(directory, pool)
    log = PartitionLog(
        topic_partition,
        directory,
        settings,
        pool,
        topic_id=_topic_id(directory),
        health=health,
    )
    log.history.snapshots = Snapshots(directory, files.snapshots)
    log.segments = SegmentList(
        pool,
        [Segment(directory, base, pool, size=size) for base, size in sorted(files.sizes.items())],
    )
    log.epochs = EpochCache(lambda: log.log_end_offset, _epochs(directory))
    hole = _hole(files, known)
    if hole is not None:
        _set_aside_behind(log, hole)
    if not len(log.segments):
        log.restart_at(max(known.log_start, hole or 0))
    elif known.clean and _is_as_left(files, known):
        if _is_bare(log, files):
            _look_through(log, known)
        else:
            _trust(log, known, files)
    else:
        _recover(log, known)
    _bound(log, known)
    _look_for_loss(log, known)
    log.durability.promised = known.recovery_point or 0
    return log


def _trust(log: PartitionLog, known: Known, files: _Files) -> None:
    """Take the checkpoints' word."""
    for segment in log.segments.closed:
        if segment.base_offset not in files.indexes:
            segment.rebuild_indexes(log.settings.index_interval_bytes)
            segment.seal()
    active = log.segments.active
    if known.recovery_point is not None and known.recovery_point >= active.base_offset:
        log.log_end_offset = known.recovery_point
    else:
        log.log_end_offset = _end_of(active)
    log.recovery_point = log.log_end_offset
    log.history.snapshots.cut(log.log_end_offset)
    if not log.history.snapshots:
        # A log closed without a snapshot had no producers.
        log.history.know(ProducerStates())


def _is_bare(log: PartitionLog, files: _Files) -> bool:
    """Whether nothing but a few records was left at a clean stop (`Durability.finalize`)."""
    beside = files.indexes or files.snapshots or log.epochs.entries
    return len(log.segments) == 1 and 0 < log.segments.active.size <= BARE_MAX and not beside


def _look_through(log: PartitionLog, known: Known) -> None:
    """Derive everything from records that were brought to the disk."""
    _recover(log, known)
    if log.damage is None:
        log.recovery_point = log.log_end_offset
        log.durability.names_synced = log.durability.home_synced = True


def _end_of(segment: Segment) -> int:
    segment.ready_indexes()
    last = segment.offsets.last
    end = segment.base_offset
    for _, header in segment.headers(last.position if last else 0):
        end = header.last_offset + 1
    return end


def _is_as_left(files: _Files, known: Known) -> bool:
    """Whether the files are what they were at the clean stop."""
    return known.extent is None or dict(known.extent) == _with_records(files)


def _with_records(files: _Files) -> dict[int, int]:
    return {base: size for base, size in files.sizes.items() if size}


def _hole(files: _Files, known: Known) -> int | None:
    """The base offset of the first segment that has lost something since the clean stop."""
    if not known.clean or known.extent is None:
        return None
    found = _with_records(files)
    return min((base for base, size in known.extent if found.get(base, 0) < size), default=None)


def _set_aside_behind(log: PartitionLog, hole: int) -> None:
    """Let a log end with the segment that has lost something.

    Those behind are whole, and yet of no use: a log has no holes.
    """
    for segment in [segment for segment in log.segments if segment.base_offset > hole]:
        log.segments.drop(segment)
        for path in segment.files:
            with contextlib.suppress(FileNotFoundError):
                os.rename(path, path + names.LOST)


def _look_for_loss(log: PartitionLog, known: Known) -> None:
    """Whether records are gone that were on the disk at a clean stop, or missed before.

    After a crash the recovery point may be that of records which were taken back since.
    """
    end = max(known.missed_end, (known.recovery_point or 0) if known.clean else 0)
    if end > log.log_end_offset:
        cut = log.damage.cut if log.damage is not None else 0
        missing = max(end, known.high_watermark) - log.log_end_offset
        log.damage = Damage(cut, log.log_end_offset, missing, at_rest=True)


def _recover(log: PartitionLog, known: Known) -> None:
    """Read what was not flushed, or all where it is not what was, and derive everything from it."""
    recovery_point = 0 if known.clean else known.recovery_point or 0
    start = log.segments[log.segments.place_of(recovery_point)].base_offset
    recorded = dict(log.epochs.entries)
    log.epochs.truncate_end(start)
    log.log_end_offset = start
    log.history.cut(start)
    producers = log.history.states
    cut = 0
    for segment in list(log.segments.from_offset(start)):
        if segment.base_offset != start:
            log.history.snapshots.take(segment.base_offset, producers)
        size = segment.size
        whole = _recover_segment(log, segment, producers, recorded)
        cut += size - segment.size
        if segment is not log.segments.active:
            segment.seal()
        if not whole:
            later = log.segments.after(segment)
            cut += sum(segment.size for segment in later)
            log.segments.retire(later, 0)
            if later:
                sync_directory(log.directory)
            break
    # A log that was cut goes on below the checkpoint's point, and what a process has written before
    # it died may be in the cache alone, names included: all that was read is to be synced again.
    log.recovery_point = start
    log.durability.names_synced = log.durability.home_synced = False
    missing = max(known.high_watermark, known.recovery_point or 0) - log.log_end_offset
    if cut or missing > 0:
        log.damage = Damage(cut, log.log_end_offset, max(missing, 0))


def _recover_segment(
    log: PartitionLog, segment: Segment, producers: ProducerStates, recorded: dict[int, int]
) -> bool:
    """Read one segment and cut it where it stops making sense; whether all of it did."""
    segment.reset_indexes()
    segment.aborted.replace([])
    interval = log.settings.index_interval_bytes
    handle = segment.handle()
    valid, log.log_end_offset = 0, segment.base_offset
    later = log.segments.after(segment)
    # Where the next segment begins the log ended once: what reaches beyond had been taken back.
    limit = later[0].base_offset if later else names.OFFSET_MAX
    for position, header, batch in whole_batches(handle.fileno(), 0, segment.size):
        if header.base_offset < log.log_end_offset or not segment.can_hold(header.last_offset):
            break
        if header.last_offset >= limit or not is_intact(batch, header):
            break
        segment.note(
            position,
            header.base_offset,
            header.last_offset,
            header.max_timestamp,
            header.size,
            interval,
        )
        if header.leader_epoch != log.epochs.latest:
            # An epoch may have begun with records that compaction has removed since.
            begun = recorded.get(header.leader_epoch, header.base_offset)
            fits = log.log_end_offset <= begun <= header.base_offset
            log.epochs.assign(header.leader_epoch, begun if fits else header.base_offset)
        if header.producer_id >= 0:
            aborted = follow(producers, batch, header, header.base_offset, header.max_timestamp)
            if aborted is not None:
                segment.aborted.append(aborted)
        valid, log.log_end_offset = position + header.size, header.last_offset + 1
    if valid == segment.size:
        return True
    os.ftruncate(handle.fileno(), valid)
    segment.size = valid
    # A preallocated file may not have been cut yet when the next segment began: with no offset
    # missing in between, nothing is.
    return log.log_end_offset == limit


def _bound(log: PartitionLog, known: Known) -> None:
    """Put the offsets in their order."""
    log.epochs.truncate_end(log.log_end_offset)
    start = max(known.log_start, log.segments[0].base_offset)
    if log.log_end_offset < start:
        log.restart_at(start)
    log.log_start_offset = start
    log.epochs.truncate_start(start)
    log.high_watermark = min(max(known.high_watermark, start), log.log_end_offset)


def _tidy(directory: str, pool: FilePool) -> _Files:
    """Sort the files of a directory, and remove what an earlier life has left.

    Raises LogRefused, and touches nothing, where it is no log's.
    """
    files = _Files()
    with os.scandir(directory) as scanned:
        entries = list(scanned)
    if not names.is_log([entry.name for entry in entries]):
        raise LogRefused(f"{directory} is no log of a broker: move it out of the log directory")
    for entry in entries:
        parsed = names.parse_offset_name(entry.name)
        if parsed is None:
            if entry.name.endswith(".tmp"):
                os.unlink(entry.path)
            continue
        offset, kind, suffix = parsed
        if suffix.endswith((names.DELETED, ".tmp")):
            os.unlink(entry.path)
        elif suffix in (names.CLEANED, names.SWAP):
            files.has_swaps = True
        elif suffix:
            continue  # somebody else's, or behind a hole: never read
        elif kind == names.LOG:
            files.sizes[offset] = entry.stat().st_size
        elif kind == names.SNAPSHOT:
            files.snapshots.append(offset)
        else:
            files.indexes.setdefault(offset, []).append(entry.path)
    if files.has_swaps:
        finish_swaps(directory, pool)
        return _tidy(directory, pool)
    for offset, paths in files.indexes.items():
        if offset not in files.sizes:
            remove_files(paths)
    return files


def finish_swaps(directory: str, pool: FilePool) -> None:
    """Finish what the cleaner had decided, undo what it had not.

    `.cleaned` files were still being written: they go, with the `.swap` files of the same round
    from there on. The other `.swap` files are complete and replace what they were made from.
    """
    found = [
        (offset, kind, suffix, os.path.join(directory, name))
        for name in os.listdir(directory)
        if (parsed := names.parse_offset_name(name)) is not None
        for offset, kind, suffix in [parsed]
        if kind != names.SNAPSHOT
    ]
    cleaned = [(offset, path) for offset, _, suffix, path in found if suffix == names.CLEANED]
    swaps = [(offset, path) for offset, _, suffix, path in found if suffix == names.SWAP]
    if not cleaned and not swaps:
        return
    undecided = min((offset for offset, _ in cleaned), default=names.OFFSET_MAX)
    remove_files(path for _, path in cleaned)
    remove_files(path for offset, path in swaps if offset >= undecided)
    decided = [(offset, path) for offset, path in swaps if offset < undecided]
    for offset, path in decided:
        if not path.endswith(names.LOG + names.SWAP):
            continue
        size = os.stat(path).st_size
        end = _end_of(Segment(directory, offset, pool, size=size, suffix=names.SWAP))
        remove_files(
            path
            for base, _, suffix, path in found
            if not suffix and offset <= base < max(end, offset + 1)
        )
    for _, path in decided:
        os.replace(path, path.removesuffix(names.SWAP))
    pool.forget_under(directory)


def _topic_id(directory: str) -> uuid.UUID | None:
    return read_topic_id(os.path.join(directory, names.PARTITION_METADATA))


def _epochs(directory: str) -> list[tuple[int, int]]:
    try:
        return read_epochs(os.path.join(directory, names.EPOCHS))
    except CheckpointCorrupt:
        return []
