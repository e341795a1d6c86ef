"""One klamm broker in a process of its own, on a ZooKeeper that others use too.

    python one_broker.py ID ZOOKEEPER DATA PORT [name=value ...]

It says "ready" on stdout when it serves; SIGTERM stops it in a controlled way.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from pathlib import Path

from klamm.broker.server import Broker
from klamm.cli.logs import LogFormat, to_stderr
from klamm.model.names import BrokerId
from klamm.model.settings import BrokerSettings
from klamm.store.zookeeper import ZooKeeperStore


async def serve(broker_id: int, zookeeper: str, data: Path, port: int, words: list[str]) -> None:
    given = {"zookeeper.connect": zookeeper, **dict(word.split("=", 1) for word in words)}
    settings = BrokerSettings.parse(given)
    store = ZooKeeperStore(
        zookeeper, session_timeout_ms=settings.int("zookeeper.session.timeout.ms")
    )
    await store.reach()
    broker = Broker(BrokerId(broker_id), store=store, settings=settings, data_dir=data, port=port)
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    try:
        await broker.start()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await told.wait()
        await broker.stop()
    finally:
        await store.close()


def main() -> None:
    broker_id, zookeeper, data, port, *words = sys.argv[1:]
    to_stderr(logging.INFO, LogFormat.TEXT)
    asyncio.run(serve(int(broker_id), zookeeper, Path(data), int(port), words))


if __name__ == "__main__":
    main()
