"""`klamm up`: run a cluster until it is told to stop.

The line `ready bootstrap=...` is the only thing on stdout, so that scripts can wait for it; it goes
on with `metrics=...` where metrics are served, and with `zookeeper=...` where the embedded store
is. Progress and warnings go to stderr. The first SIGINT or SIGTERM asks for a controlled shutdown,
a second one no longer waits for it.

Exit codes: 0 stopped as asked, 1 failed, 2 cannot start like this, 3 every broker has stopped by
itself (failed disks), 130 a second signal cut the shutdown short.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from klamm.cli.logs import LogFormat, to_stderr
from klamm.cli.options import new_app, parse_pairs
from klamm.model.errors import UsageError

if TYPE_CHECKING:
    from klamm.app import ClusterApp, Plan

app = new_app("Run a cluster until Ctrl-C.")

NO_BROKER_LEFT: Final = 3  # the exit code
# Somebody looks after this cluster, and may want to ask what became of it. A cluster inside a test
# has the topics that the test made and no others.
_OPERATED: Final = {"klamm.ledger.topic.enable": "true"}


@app.command()
def up(
    brokers: Annotated[int, typer.Option(help="how many brokers")] = 3,
    port: Annotated[int, typer.Option(help="broker i listens on port + i; 0 = free ports")] = 9092,
    host: Annotated[str, typer.Option(help="the address to listen on")] = "127.0.0.1",
    data: Annotated[
        Path | None, typer.Option(help="the data directory [$XDG_STATE_HOME/klamm]")
    ] = None,
    ephemeral: Annotated[
        bool, typer.Option("--ephemeral", help="use a temporary directory and leave nothing behind")
    ] = False,
    setting: Annotated[
        list[str] | None,
        typer.Option("-X", metavar="NAME=VALUE", help="a broker setting of Kafka; repeatable"),
    ] = None,
    rack: Annotated[
        str, typer.Option(metavar="R,R,...", help="the rack of each broker, in order")
    ] = "",
    zookeeper: Annotated[
        str | None, typer.Option(metavar="HOST:PORT,...", help="keep metadata in this ZooKeeper")
    ] = None,
    zookeeper_port: Annotated[
        int | None,
        typer.Option(help="serve the embedded store as a ZooKeeper; 0 = a free port [off]"),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(help="serve Prometheus metrics on this port; 0 = a free port [off]"),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="log more")] = False,
    log_format: Annotated[LogFormat, typer.Option(help="the format of log lines")] = LogFormat.TEXT,
) -> None:
    """Run a cluster until Ctrl-C."""
    from klamm.app import Plan
    from klamm.datadir import default_data

    if ephemeral and data is not None:
        raise UsageError("--ephemeral and --data cannot be used together")
    settings = parse_pairs(setting or (), option="-X")
    if metrics_port is not None:
        settings["klamm.metrics.port"] = str(metrics_port)
    if zookeeper_port is not None:
        settings["klamm.store.serve.port"] = str(zookeeper_port)
    plan = Plan(
        brokers=brokers,
        host=host,
        port=port,
        data=None if ephemeral else data or default_data(),
        settings=_OPERATED | settings,
        racks=tuple(rack.split(",")) if rack else (),
        zookeeper=zookeeper,
    )
    to_stderr(logging.INFO if verbose else logging.WARNING, log_format)
    code = asyncio.run(_serve(plan))
    raise typer.Exit(code)


async def _serve(plan: Plan) -> int:
    from klamm.app import ClusterApp

    progress = _Progress()
    cluster = ClusterApp(plan, progress.show)
    signals = _Signals()
    _collect_seldom()
    try:
        if not await signals.unless_heard(cluster.start()):
            await cluster.stop()
            return 0
        progress.clear()
        metrics = f" metrics={cluster.metrics_url}" if cluster.metrics_url else ""
        store = f" zookeeper={cluster.zookeeper_address}" if cluster.zookeeper_address else ""
        print(f"ready bootstrap={cluster.bootstrap_servers}{metrics}{store}", flush=True)
        if not await signals.unless_heard(_until_failed(cluster)):
            return 0 if await signals.unless_heard(cluster.stop()) else 130
        await cluster.stop()
        return NO_BROKER_LEFT
    finally:
        progress.clear()


async def _until_failed(cluster: ClusterApp) -> None:
    sentence = await cluster.failed()
    print(f"klamm: {sentence}", file=sys.stderr, flush=True)


def _collect_seldom() -> None:
    """Have Python look for cyclic garbage less often.

    Brokers make a lot that stays, a dozen objects a partition, and next to no cycles; looking
    through it all the time was an eighth of the cost of a wide topic. What the imports made stays
    anyway. Only here: a process that merely embeds a cluster keeps its own ways.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


class _Signals:
    """SIGINT and SIGTERM as something to wait for, once each."""

    def __init__(self) -> None:
        self._heard = asyncio.Semaphore(0)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._heard.release)

    async def heard(self) -> None:
        """Until one comes."""
        await self._heard.acquire()

    async def unless_heard(self, work: Coroutine[object, object, None]) -> bool:
        """Do this work; False when a signal came meanwhile, which cuts it short."""
        doing, hearing = asyncio.ensure_future(work), asyncio.ensure_future(self.heard())
        try:
            await asyncio.wait({doing, hearing}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                doing.result()
            return not hearing.done()
        finally:
            doing.cancel()
            hearing.cancel()
            await asyncio.gather(doing, hearing, return_exceptions=True)


class _Progress:
    """One line on a terminal that each report overwrites; silence elsewhere."""

    def __init__(self) -> None:
        self._on_terminal = sys.stderr.isatty()

    def show(self, line: str) -> None:
        if self._on_terminal:
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        self.show("")
