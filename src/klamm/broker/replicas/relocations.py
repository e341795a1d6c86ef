"""Logs that move from one directory of this broker to another.

A move is a follower inside the broker: a copy grows in the other directory while clients and
replicas go on with the log (`log/relocation.py` says how). Files are read by a worker thread,
records appended by the loop, as everywhere. When little is missing, the copy is brought to the
disk; then the last of it is copied and both change places in one go, in which the loop does nothing
else, so that nobody sees a log that is not whole.

Some logs move at a time (`num.replica.alter.log.dirs.threads`), those that were asked for first,
and together as fast as `replica.alter.log.dirs.io.max.bytes.per.second` allows. A move ends early
when the log is deleted, when it is sent elsewhere, or when either disk fails. After a restart it
goes on by itself, once the controller has said that the partition still is ours.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from klamm.broker.replicas.hosting import Hosting
from klamm.broker.replicas.partition import Partition, Role
from klamm.log.directory import LogDirectory
from klamm.log.disk.failure import StorageShortage
from klamm.log.partition import PartitionLog, StorageTrouble
from klamm.log.relocation import align, take
from klamm.model.errors import ErrorCode, ProtocolError
from klamm.model.names import TopicPartition, partition_fault

log = logging.getLogger(__name__)

_CHUNK_BYTES: Final = 1 << 20  # copied at a time; also what the loop copies at once in the end
_PAUSE_S: Final = 0.25  # where somebody appends as fast as we can copy


class Relocations:
    """The relocations of one broker, the oldest first."""

    def __init__(self, hosting: Hosting) -> None:
        self._hosting = hosting
        self._waiting: dict[TopicPartition, None] = {}  # until they have ended
        self._moving: set[TopicPartition] = set()
        self._news = asyncio.Event()

    # What is asked for

    def alter(self, topic_partition: TopicPartition, path: str) -> ErrorCode:
        """Let a partition's log live in this directory from some time on (AlterReplicaLogDirs)."""
        if partition_fault(topic_partition) is not None:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        logs = self._hosting.logs
        directory = logs.directory_at(path)
        if directory is None:
            return ErrorCode.LOG_DIR_NOT_FOUND
        partition = self._hosting.replicas.partition(topic_partition)
        is_offline = partition is not None and partition.role is Role.OFFLINE
        if is_offline or not directory.is_online:
            return ErrorCode.KAFKA_STORAGE_ERROR
        self._give_up_elsewhere(topic_partition, directory)
        current = partition.log if partition is not None else None
        if partition is None or current is None:
            logs.prefer(topic_partition, directory)
            known = self._hosting.metadata.snapshot.partition(topic_partition) is not None
            code = ErrorCode.REPLICA_NOT_AVAILABLE if known else None
            return code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if directory.get(topic_partition) is current:
            return ErrorCode.NONE
        if topic_partition not in directory.futures:
            if logs.any_failed:
                # On the disk that cannot be read there may be a copy already.
                return ErrorCode.KAFKA_STORAGE_ERROR
            directory.create_future(current)
        self.resume(partition)
        return ErrorCode.NONE

    def _give_up_elsewhere(self, topic_partition: TopicPartition, wanted: LogDirectory) -> None:
        home = self._hosting.logs.future_home(topic_partition)
        if home is not None and home is not wanted:
            self._end(topic_partition)
            home.delete_future(topic_partition, self._hosting.clock.now_ms())

    def resume(self, partition: Partition) -> None:
        """Go on with the move of a partition, if there is one."""
        topic_partition = partition.topic_partition
        if partition.log is None or self._hosting.logs.future_home(topic_partition) is None:
            return
        partition.log.is_relocating = True
        self._waiting[topic_partition] = None
        self._news.set()

    def directory_failed(self, path: str) -> None:
        """Copies on a failed disk are of no use; copies of logs on it have lost their original."""
        for directory in self._hosting.logs.directories:
            for topic_partition in list(directory.futures):
                partition = self._hosting.replicas.partition(topic_partition)
                if directory.path == path or partition is None or partition.log is None:
                    directory.drop_future(topic_partition)
                    self._end(topic_partition)

    def _end(self, topic_partition: TopicPartition) -> None:
        self._waiting.pop(topic_partition, None)
        local = self._hosting.logs.get(topic_partition)
        if local is not None:
            local.is_relocating = False

    # What is done

    async def run(self) -> None:
        async with asyncio.TaskGroup() as movers:
            while True:
                while (topic_partition := self._next()) is not None:
                    self._moving.add(topic_partition)
                    movers.create_task(self._move_one(topic_partition))
                self._news.clear()
                await self._news.wait()

    def _next(self) -> TopicPartition | None:
        """The move that has waited for longest, when one more may begin."""
        at_once = self._hosting.settings.int_or(
            "num.replica.alter.log.dirs.threads", len(self._hosting.logs.directories)
        )
        if len(self._moving) >= at_once:
            return None
        return next((tp for tp in self._waiting if tp not in self._moving), None)

    async def _move_one(self, topic_partition: TopicPartition) -> None:
        try:
            await self._relocate(topic_partition)
        except StorageShortage as shortage:
            self._hosting.storage_trouble(shortage)
            await asyncio.sleep(_PAUSE_S)
            self._moving.discard(topic_partition)
            self._news.set()
            return  # it still waits, and goes on when its turn comes
        except StorageTrouble as trouble:
            self._hosting.storage_trouble(trouble)
        except ProtocolError as fault:
            # The original does not read back as it was written. It is left alone.
            log.error(
                "a log cannot be moved",
                extra={"partition": str(topic_partition), "why": str(fault)},
            )
        self._end(topic_partition)
        self._moving.discard(topic_partition)
        self._news.set()

    async def _relocate(self, topic_partition: TopicPartition) -> None:
        """Copy until both are the same, then exchange them."""
        while (pair := self._pair(topic_partition)) is not None:
            partition, original, copy = pair
            left = original.log_end_offset - copy.log_end_offset
            if left and not self._is_nearly_done(original, copy):
                await self._copy_some(original, copy)
                continue
            await self._hosting.in_worker(copy.flush)
            if self._pair(topic_partition) == pair and self._copy_rest(original, copy):
                self._exchange(partition)
                return
            await asyncio.sleep(_PAUSE_S)

    def _pair(
        self, topic_partition: TopicPartition
    ) -> tuple[Partition, PartitionLog, PartitionLog] | None:
        """The partition, its log and the copy; None when the move has come to an end."""
        partition = self._hosting.replicas.partition(topic_partition)
        home = self._hosting.logs.future_home(topic_partition)
        if partition is None or partition.log is None or home is None:
            return None
        return partition, partition.log, home.futures[topic_partition]

    def _is_nearly_done(self, original: PartitionLog, copy: PartitionLog) -> bool:
        align(copy, original)
        if copy.log_end_offset < original.segments.active.base_offset:
            return False
        size = self._hosting.throttles.directories.at_once(_CHUNK_BYTES)
        found = original.read(copy.log_end_offset, max_bytes=size + 1)
        return not isinstance(found, ErrorCode) and found.size <= size

    async def _copy_some(self, original: PartitionLog, copy: PartitionLog) -> None:
        """One step; what was read is thrown away when records were taken back meanwhile."""
        rate = self._hosting.throttles.directories
        found = original.read(copy.log_end_offset, max_bytes=rate.at_once(_CHUNK_BYTES))
        if isinstance(found, ErrorCode):
            await asyncio.sleep(_PAUSE_S)
            return
        truncations, end = original.truncations, copy.log_end_offset
        try:
            batches = await self._hosting.in_worker(found.read)
        except OSError as error:
            raise original.health.failed(error) from error
        if not (original.is_open and copy.is_open) or original.truncations != truncations:
            return
        if copy.log_end_offset == end:
            take(copy, original, batches, self._hosting.clock.now_ms())
        rate.count(len(batches))
        await asyncio.sleep(rate.wait_ms() / 1000)

    def _copy_rest(self, original: PartitionLog, copy: PartitionLog) -> bool:
        """Copy what came last, without letting anybody in between. Whether that is all."""
        align(copy, original)
        copied = 0
        while copy.log_end_offset < original.log_end_offset and copied <= _CHUNK_BYTES:
            found = original.read(copy.log_end_offset, max_bytes=_CHUNK_BYTES)
            if isinstance(found, ErrorCode):
                return False
            try:
                batches = found.read()
            except OSError as error:
                raise original.health.failed(error) from error
            take(copy, original, batches, self._hosting.clock.now_ms())
            copied += len(batches)
        return copy.log_end_offset == original.log_end_offset

    def _exchange(self, partition: Partition) -> None:
        topic_partition = partition.topic_partition
        partition.log = self._hosting.logs.replace(topic_partition, self._hosting.clock.now_ms())
        self._hosting.fetchers.log_moved(partition)
        log.info(
            "a log has moved",
            extra={"partition": str(topic_partition), "to": partition.log.directory},
        )
