"""`klamm broker`: run one broker until it is told to stop.

The line `ready bootstrap=... broker=N` is the only thing on stdout. Progress and log lines go to
stderr, and to systemd where it asks for them (NOTIFY_SOCKET). The first SIGTERM or SIGINT asks for
a controlled shutdown: leaderships move to other brokers first. A second one no longer waits.

Exit codes: 0 stopped as asked, 1 failed, 2 cannot start like this, 3 the broker has stopped by
itself (its last log directory failed), 130 a second signal cut the shutdown short.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from klamm.cli.cluster.running import (
    LogFormatOption,
    MetricsPortOption,
    ProgressLine,
    SettingOption,
    Signals,
    VerboseOption,
)
from klamm.cli.logs import LogFormat, to_stderr
from klamm.cli.options import new_app, parse_pairs
from klamm.cli.output import say
from klamm.cli.parsing.declared import Option

if TYPE_CHECKING:
    from klamm.app.notify import Notifier
    from klamm.app.one_broker import BrokerApp, BrokerPlan

app = new_app("Run one broker until it is told to stop.")

STOPPED_BY_ITSELF: Final = 3  # the exit code
CUT_SHORT: Final = 130
# As those of `klamm up`: somebody looks after it, and may want to ask what became of the cluster.
_OPERATED: Final = {"klamm.ledger.topic.enable": "true"}

_Config = Annotated[
    Path | None,
    Option(metavar="FILE", help="settings of Kafka's form, such as a server.properties"),
]
_Id = Annotated[int | None, Option("--id", help="the broker's number (broker.id)")]
_Listeners = Annotated[
    str | None,
    Option(metavar="NAME://HOST:PORT,...", help="where it listens (listeners)"),
]
_ZooKeeper = Annotated[
    str | None,
    Option(
        metavar="HOST:PORT,...[/PATH]",
        help="the ZooKeeper of the cluster (zookeeper.connect), or a store that klamm serves",
    ),
]
_LogDirs = Annotated[
    str | None, Option(metavar="DIR,...", help="where it keeps its logs (log.dirs)")
]


@app.command()
def broker(
    config: _Config = None,
    id: _Id = None,
    listeners: _Listeners = None,
    zookeeper: _ZooKeeper = None,
    log_dirs: _LogDirs = None,
    setting: SettingOption = None,
    metrics_port: MetricsPortOption = None,
    verbose: VerboseOption = False,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Run one broker until it is told to stop.

    Example: klamm broker --config server.properties --id 1
    """
    to_stderr(logging.INFO if verbose else logging.WARNING, log_format)
    # Whoever stops a broker waits, and is told for what.
    logging.getLogger("klamm.broker.handing_over").setLevel(logging.INFO)
    named = {
        "broker.id": None if id is None else str(id),
        "listeners": listeners,
        "zookeeper.connect": zookeeper,
        "log.dirs": log_dirs,
        "klamm.metrics.port": None if metrics_port is None else str(metrics_port),
    }
    plan = _plan(config, named, parse_pairs(setting or (), option="-X"))
    raise SystemExit(asyncio.run(_serve(plan)))


def _plan(config: Path | None, named: dict[str, str | None], typed: dict[str, str]) -> BrokerPlan:
    from klamm.app.one_broker import BrokerPlan
    from klamm.app.server_properties import DEFAULT_PORT, checked, gathered, read_file

    file = _OPERATED | ({} if config is None else read_file(config))
    wishes = checked(gathered(file, named, typed), Path.cwd())
    return BrokerPlan(
        id=wishes.id,
        data=wishes.log_dirs[0],
        host="",
        port=DEFAULT_PORT,
        settings=wishes.settings,
        reserved_max=wishes.reserved_max,
    )


async def _serve(plan: BrokerPlan) -> int:
    from klamm.app.notify import Notifier
    from klamm.app.one_broker import BrokerApp, buffer_less, collect_seldom

    notifier, line = Notifier(), ProgressLine()

    def progress(text: str) -> None:
        line.show(text)
        notifier.status(text)

    running = BrokerApp(plan, progress)
    signals = Signals()
    collect_seldom()
    buffer_less()
    watching = asyncio.create_task(notifier.watch(), name="watchdog")
    try:
        return await _live(running, signals, notifier, line)
    finally:
        line.clear()
        watching.cancel()
        notifier.close()


async def _live(
    running: BrokerApp, signals: Signals, notifier: Notifier, line: ProgressLine
) -> int:
    if not await signals.unless_heard(running.start()):
        return 0
    line.clear()
    metrics = f" metrics={running.metrics_url}" if running.metrics_url else ""
    say(f"ready bootstrap={running.address} broker={running.id}{metrics}")
    sys.stdout.flush()
    notifier.ready()
    if await signals.unless_heard(running.failed()):
        notifier.stopping()
        say(
            f"klamm: broker {running.id} has stopped by itself: no log directory is left; the "
            "lines above say why",
            to=sys.stderr,
        )
        await running.kill()
        return STOPPED_BY_ITSELF
    notifier.stopping()
    return 0 if await signals.unless_heard(running.stop()) else CUT_SHORT
