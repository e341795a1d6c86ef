"""Does the periodic work of a broker.

Each chore has its interval, which may change while it pauses. Those that wait for a disk run on a
worker thread, one at a time; the rest is quick and runs on the loop, because it touches what
requests touch.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from klamm.broker.ground import Ground
from klamm.broker.storage.logs import Logs
from klamm.broker.storage.pace import Pace
from klamm.log.cleaning import cleaner
from klamm.log.partition import StorageTrouble
from klamm.log.producers.bounding import bound_producers
from klamm.model.settings import BrokerSettings

log = logging.getLogger(__name__)

Interval = Callable[[BrokerSettings], int]

_SWEEP_MS: Final = 10_000
_PURGE_MS_MAX: Final = 5_000
_FLUSH_MS: Final = 1_000
_BOUND_MS: Final = 10_000
_BYTES_PER_KEY: Final = 200  # what a key costs in the memory that compaction is given


class Housekeeping:
    """The chores of one broker."""

    def __init__(
        self,
        ground: Ground,
        logs: Logs,
        *,
        drop_laggards: Callable[[], None],
        sweep: Callable[[], None],
    ) -> None:
        self._ground = ground
        self._logs = logs
        self._drop_laggards_now = drop_laggards
        self._sweep_now = sweep
        self._stopping = threading.Event()
        self._pace = Pace(self._cleaner_rate, self._stopping)
        self._changed = asyncio.Event()  # replaced by the next one when it is set

    def settings_changed(self) -> None:
        """Whoever pauses looks at how long it should."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def run(self) -> None:
        try:
            await self._run_all()
        finally:
            self._stopping.set()

    def _cleaner_rate(self) -> float:
        return self._ground.settings.float("log.cleaner.io.max.bytes.per.second")

    async def _run_all(self) -> None:
        async with asyncio.TaskGroup() as chores:
            for interval_ms, chore in (
                (lambda s: max(s.int("replica.lag.time.max.ms") // 2, 1), self._drop_laggards),
                (_of("replica.high.watermark.checkpoint.interval.ms"), self._checkpoint_hw),
                (_of("log.flush.offset.checkpoint.interval.ms"), self._checkpoint),
                (_of("log.retention.check.interval.ms"), self._retain),
                (_purge_interval_ms, self._purge),
                (lambda _: _FLUSH_MS, self._flush),
                (lambda s: max(s.int("log.cleaner.backoff.ms"), 100), self._clean),
                (_of("producer.id.expiration.check.interval.ms"), self._expire_producers),
                (lambda _: _BOUND_MS, self._bound_producers),
                (lambda _: _SWEEP_MS, self._sweep),
            ):
                chores.create_task(self._repeat(interval_ms, chore))

    async def _repeat(self, interval_ms: Interval, chore: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._pause(interval_ms)
            try:
                await chore()
            except StorageTrouble as trouble:
                self._ground.storage_trouble(trouble)

    async def _pause(self, interval_ms: Interval) -> None:
        """As long as the settings say, also where they change meanwhile."""
        clock = asyncio.get_running_loop().time
        began_s = clock()
        while (left_s := began_s + interval_ms(self._ground.settings) / 1000 - clock()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._changed.wait()

    async def _drop_laggards(self) -> None:
        self._drop_laggards_now()

    async def _sweep(self) -> None:
        self._sweep_now()

    async def _checkpoint_hw(self) -> None:
        for directory in self._logs.online:
            await self._ground.in_worker(directory.checkpoint_high_watermarks)

    async def _checkpoint(self) -> None:
        for directory in self._logs.online:
            await self._ground.in_worker(directory.checkpoint)

    async def _retain(self) -> None:
        now_ms = self._ground.clock.now_ms()
        for local in list(self._logs):
            if local.is_open:  # it may be deleted or moved by now
                local.apply_retention(now_ms)
            await asyncio.sleep(0)

    async def _purge(self) -> None:
        now_ms = self._ground.clock.now_ms()
        for directory in self._logs.online:
            await self._ground.in_worker(partial(directory.purge_due, now_ms))

    async def _flush(self) -> None:
        """Bring closed segments to the disk, and what a topic's flush.ms asks for."""
        now_ms = self._ground.clock.now_ms()
        for directory in self._logs.online:
            await self._ground.in_worker(partial(directory.flush_due, now_ms))

    async def _clean(self) -> None:
        """Compact one log of each directory."""
        settings = self._ground.settings
        if not settings.bool("log.cleaner.enable"):
            return
        keys_max = settings.int("log.cleaner.dedupe.buffer.size") // _BYTES_PER_KEY
        for directory in self._logs.online:
            plan = directory.plan_cleaning(self._ground.clock.now_ms())
            if plan is None:
                continue
            building = partial(cleaner.build, plan, keys_max, self._pace, self._stopping.is_set)
            cleaned = await self._ground.in_worker(building)
            if cleaned is not None and cleaned.uncleaned:
                log.warning(
                    "batches stay as they are: they do not open, or have too many keys; raise "
                    "log.cleaner.dedupe.buffer.size or klamm.batch.expanded.bytes.max",
                    extra={"log": str(plan.log.topic_partition), "offsets": cleaned.uncleaned},
                )
            if cleaned is not None and cleaner.install(plan, cleaned):
                await self._ground.in_worker(directory.checkpoint_cleaned)

    async def _expire_producers(self) -> None:
        silence_ms = self._ground.settings.int("producer.id.expiration.ms")
        before_ms = self._ground.clock.now_ms() - silence_ms
        for directory in self._logs.online:
            directory.expire_producers(before_ms)

    async def _bound_producers(self) -> None:
        most = self._ground.settings.int("klamm.producer.ids.max")
        histories = (each.history for where in self._logs.online for each in where.with_files())
        forgotten = bound_producers(histories, most)
        if forgotten:
            log.warning(
                "too many producers wrote: those that were silent longest are forgotten, and a "
                "retry of theirs is not recognised; klamm.producer.ids.max is the bound",
                extra={"forgotten": forgotten},
            )


def _of(name: str) -> Interval:
    return lambda settings: settings.int(name)


def _purge_interval_ms(settings: BrokerSettings) -> int:
    return max(min(settings.int("log.segment.delete.delay.ms"), _PURGE_MS_MAX), 100)
