"""One klamm broker in a process of its own, for experiments that end badly.

    python host.py ID ZOOKEEPER DATA [name=value ...]

SIGTERM stops it in a controlled way. SIGUSR1 and SIGUSR2 set its clock, as records and files carry
it, an hour forth or back. SIGHUP makes its disk slow, or as quick as before. KLAMM_CHAOS_PLANT
names a fault to plant, which a checker has to find; KLAMM_CHAOS_DIGEST is shown to a served store.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from klamm.broker.clock import SystemClock
from klamm.broker.replicas.partition import Partition
from klamm.broker.server import Broker
from klamm.cli.logs import LogFormat, to_stderr
from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId
from klamm.model.settings import BrokerSettings
from klamm.store.zookeeper import ZooKeeperStore

_HOUR_MS = 3_600_000
_FORGOTTEN = 300
_SLOW_S = 0.03


class JumpingClock(SystemClock):
    """The machine's clock, set forth and back by an hour at a time."""

    def __init__(self) -> None:
        self.offset_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.offset_ms

    def jump(self, by_ms: int) -> None:
        self.offset_ms += by_ms


class Disk:
    """The disk under all that this process writes, which can be slow."""

    def __init__(self) -> None:
        self.is_slow = False
        os.pwrite, os.fsync = self._slowly(os.pwrite), self._slowly(os.fsync)

    def turn(self) -> None:
        self.is_slow = not self.is_slow

    def _slowly(self, call: Callable[..., Any]) -> Any:
        def called(*args: Any) -> Any:
            if self.is_slow:
                time.sleep(_SLOW_S)
            return call(*args)

        return called


def acknowledge_early(partition: Partition, offset_end: int, waiter: Any) -> None:
    """Planted: the producer hears that all have it when the leader has it."""
    waiter.acknowledged(partition, ErrorCode.NONE)


def forget(lead: Any) -> Any:
    """Planted: a leader of a new epoch has lost the end of its log."""

    def leading(partition: Partition, state: Any, local: Any) -> bool:
        if state.leader_epoch > 0 and local.log_end_offset > _FORGOTTEN:
            local.truncate_to(local.log_end_offset - _FORGOTTEN)
        return bool(lead(partition, state, local))

    return leading


def plant(what: str) -> None:
    if what == "early":
        Partition.await_acks = acknowledge_early  # type: ignore[method-assign]
    elif what == "forget":
        Partition.lead = forget(Partition.lead)  # type: ignore[method-assign]


async def serve(broker_id: int, zookeeper: str, data: Path, words: list[str]) -> None:
    given = {"zookeeper.connect": zookeeper, **dict(word.split("=", 1) for word in words)}
    settings = BrokerSettings.parse(given)
    timeout_ms = settings.int("zookeeper.session.timeout.ms")
    store = ZooKeeperStore(
        zookeeper,
        session_timeout_ms=timeout_ms,
        connection_timeout_ms=60_000,
        digest=os.environ.get("KLAMM_CHAOS_DIGEST", ""),
    )
    await store.reach()
    clock = JumpingClock()
    broker = Broker(BrokerId(broker_id), store=store, settings=settings, data_dir=data, clock=clock)
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, told.set)
    loop.add_signal_handler(signal.SIGUSR1, clock.jump, _HOUR_MS)
    loop.add_signal_handler(signal.SIGUSR2, clock.jump, -_HOUR_MS)
    loop.add_signal_handler(signal.SIGHUP, Disk().turn)
    try:
        await broker.start()
        stopped = asyncio.ensure_future(broker.stopped.wait())
        await asyncio.wait(
            {stopped, asyncio.ensure_future(told.wait())}, return_when=asyncio.FIRST_COMPLETED
        )
        await broker.stop()
    finally:
        await store.close()


def main() -> None:
    broker_id, zookeeper, data, *words = sys.argv[1:]
    to_stderr(logging.INFO, LogFormat.TEXT)
    plant(os.environ.get("KLAMM_CHAOS_PLANT", ""))
    asyncio.run(serve(int(broker_id), zookeeper, Path(data), words))


if __name__ == "__main__":
    main()
