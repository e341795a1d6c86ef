"""`klamm up`: run a cluster until it is told to stop.

The line `ready bootstrap=...` is the only thing on stdout, so that scripts can wait for it; it goes
on with `metrics=...` where metrics are served, with `zookeeper=...` where the embedded store is, or
where the cluster runs a ZooKeeper of its own, with `clients=...`, the directory of its clients'
files, where the cluster is secured, and with `console=...` where there is a console. Progress and
warnings go to stderr. The first SIGINT or SIGTERM asks for a controlled shutdown, a second one no
longer waits for it.

Exit codes: 0 stopped as asked, 1 failed, 2 cannot start like this, 3 every broker has stopped by
itself (failed disks), 130 a second signal cut the shutdown short.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Final

from klamm.cli.cluster import console_child
from klamm.cli.cluster.running import (
    DataOption,
    LogFormatOption,
    MetricsPortOption,
    ProgressLine,
    SettingOption,
    Signals,
    VerboseOption,
)
from klamm.cli.logs import LogFormat, to_stderr
from klamm.cli.options import new_app, parse_pairs
from klamm.cli.parsing.declared import Option
from klamm.model.errors import UsageError

if TYPE_CHECKING:
    from klamm.app.nursery import Nursery
    from klamm.app.one_process import ClusterApp
    from klamm.app.plan import Plan
    from klamm.app.processes import ProcessCluster

app = new_app("Run a cluster until Ctrl-C.")

_PORT: Final = 9092
_ADMIN: Final = "admin"  # of a secured cluster; `klamm.secured` would be slow to import
NO_BROKER_LEFT: Final = 3  # the exit code
# Somebody looks after this cluster, and may want to ask what became of it. A cluster inside a test
# has the topics that the test made and no others.
_OPERATED: Final = {"klamm.ledger.topic.enable": "true"}
# The value of --zookeeper where nothing stands behind it. No address looks like this.
_OWN: Final = "own"


_SecureOption = Annotated[
    bool, Option("--secure", help="lock it: TLS, passwords and access control lists")
]
_UserOption = Annotated[
    list[str] | None,
    Option(
        metavar="NAME[:PASSWORD]",
        help="a user besides admin; without a password one is drawn; repeatable",
    ),
]


_Brokers = Annotated[int, Option(help="how many brokers")]
_Port = Annotated[
    int | None,
    Option(help="broker i listens on port + i; 0 = free ports [9092]", show_default=False),
]
_Host = Annotated[
    str | None, Option(help="the address to listen on [127.0.0.1]", show_default=False)
]
_Advertise = Annotated[
    str | None, Option(metavar="HOST", help="the address that clients are sent to [--host]")
]
_Ephemeral = Annotated[
    bool, Option("--ephemeral", help="use a temporary directory and leave nothing behind")
]
_Rack = Annotated[str, Option(metavar="R,R,...", help="the rack of each broker, in order")]
_ZooKeeper = Annotated[
    str | None,
    Option(
        metavar="[HOST:PORT,...]",
        help="keep metadata in this ZooKeeper; with no address, in one that is started along "
        "(from PySpark's jars)",
        bare=_OWN,
    ),
]
_ZooKeeperNodes = Annotated[
    int | None, Option(help="start a ZooKeeper of so many servers: 1, 3, 5 or 7 [1]")
]
_ZooKeeperPort = Annotated[
    int | None,
    Option(
        help="serve the embedded store as a ZooKeeper on this port, or have the one that is "
        "started along listen there; 0 = a free port [off]"
    ),
]
_ConsolePort = Annotated[
    int | None, Option(help="show it in a browser, on this port; 0 = a free port [off]")
]
_Processes = Annotated[bool, Option("--processes", help="run each broker in a process of its own")]


@app.command()
def up(
    brokers: _Brokers = 3,
    port: _Port = None,
    host: _Host = None,
    advertise: _Advertise = None,
    data: DataOption = None,
    ephemeral: _Ephemeral = False,
    secure: _SecureOption = False,
    user: _UserOption = None,
    setting: SettingOption = None,
    rack: _Rack = "",
    zookeeper: _ZooKeeper = None,
    zookeeper_nodes: _ZooKeeperNodes = None,
    zookeeper_port: _ZooKeeperPort = None,
    metrics_port: MetricsPortOption = None,
    console_port: _ConsolePort = None,
    processes: _Processes = False,
    verbose: VerboseOption = False,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Run a cluster until Ctrl-C.

    Example: klamm up --brokers 3 --port 9092
    """
    from klamm.app.plan import HERE, Plan
    from klamm.datadir import default_data
    from klamm.secured.wishes import Security

    if ephemeral and data is not None:
        raise UsageError("--ephemeral and --data cannot be used together")
    if console_port is not None:
        console_child.check()
    if user and not secure:
        raise UsageError("--user names somebody who can sign in, which takes --secure")
    settings = parse_pairs(setting or (), option="-X")
    if metrics_port is not None:
        settings["klamm.metrics.port"] = str(metrics_port)
    starts_zookeeper = zookeeper == _OWN or (zookeeper is None and zookeeper_nodes is not None)
    if zookeeper_port is not None and not starts_zookeeper:
        settings["klamm.store.serve.port"] = str(zookeeper_port)
    plan = Plan(
        brokers=brokers,
        host=HERE if host is None else host,
        port=_port(port, settings),
        advertise=advertise,
        data=None if ephemeral else data or default_data(),
        settings=_OPERATED | settings,
        racks=tuple(rack.split(",")) if rack else (),
        zookeeper=None if starts_zookeeper else zookeeper,
        zookeeper_nodes=_nodes(zookeeper_nodes, default=int(starts_zookeeper)),
        zookeeper_port=zookeeper_port or 0 if starts_zookeeper else 0,
        security=Security(users=user or ()) if secure else None,
    )
    level = logging.INFO if verbose else logging.WARNING
    code = _run(plan, level, log_format, console_port=console_port, processes=processes)
    raise SystemExit(code)


def _run(
    plan: Plan, level: int, log_format: LogFormat, *, console_port: int | None, processes: bool
) -> int:
    nursery = _nursery(lambda name: to_stderr(level, log_format, name)) if processes else None
    to_stderr(level, log_format)
    try:
        return asyncio.run(_serve(plan, nursery, console_port))
    finally:
        if nursery is not None:
            nursery.close()


def _nodes(given: int | None, *, default: int) -> int:
    if given is None:
        return default
    from klamm.ensemble import nodes_fault

    if fault := nodes_fault(given):
        raise UsageError(fault)
    return given


def _port(given: int | None, settings: Mapping[str, str]) -> int:
    """Kafka's port, unless the settings say where brokers listen."""
    if given is not None:
        return given
    return 0 if settings.get("listeners") else _PORT


def _nursery(on_birth: Callable[[str], None]) -> Nursery:
    """A process that bears brokers, forked while this one has one thread and no loop."""
    from klamm.app import supervised
    from klamm.app.nursery import Nursery
    from klamm.store import zookeeper  # noqa: F401 - for the brokers, who share what is imported

    return Nursery.fork(lambda channel: supervised.live(channel, on_birth))


async def _serve(plan: Plan, nursery: Nursery | None, console_port: int | None) -> int:
    from klamm.app.control import ControlServer
    from klamm.app.one_broker import buffer_less, collect_seldom

    progress = ProgressLine()
    cluster = _cluster(plan, progress, nursery)
    control = ControlServer(cluster)
    signals = Signals()
    console = None
    collect_seldom()
    buffer_less()
    try:
        if not await signals.unless_heard(cluster.start()):
            await cluster.stop()
            return 0
        await control.start()
        progress.clear()
        metrics = f" metrics={cluster.metrics_url}" if cluster.metrics_url else ""
        store = f" zookeeper={cluster.zookeeper_address}" if cluster.zookeeper_address else ""
        clients = f" clients={cluster.secured.clients}" if cluster.secured else ""
        shown = ""
        if console_port is not None:
            console = await _console(cluster, console_port)
            shown = f" console={console.url}"
        more = f"{metrics}{store}{clients}{shown}"
        print(f"ready bootstrap={cluster.bootstrap_servers}{more}", flush=True)
        if not await signals.unless_heard(_until_failed(cluster)):
            await control.stop()
            return 0 if await signals.unless_heard(cluster.stop()) else 130
        await control.stop()
        await cluster.stop()
        return NO_BROKER_LEFT
    finally:
        if console is not None:
            await console.stop()
        progress.clear()


async def _console(cluster: ClusterApp | ProcessCluster, port: int) -> console_child.ConsoleChild:
    """The console, which signs in to a secured cluster as its admin."""
    config = cluster.secured.clients / f"{_ADMIN}.properties" if cluster.secured else None
    return await console_child.ConsoleChild.start(
        port, cluster.bootstrap_servers, config, cluster.data
    )


def _cluster(
    plan: Plan, progress: ProgressLine, nursery: Nursery | None
) -> ClusterApp | ProcessCluster:
    if nursery is not None:
        from klamm.app.processes import ProcessCluster

        return ProcessCluster(plan, progress.show, nursery)
    from klamm.app.one_process import ClusterApp

    return ClusterApp(plan, progress.show)


async def _until_failed(cluster: ClusterApp | ProcessCluster) -> None:
    sentence = await cluster.failed()
    print(f"klamm: {sentence}", file=sys.stderr, flush=True)
