"""`klamm cluster`: operate the brokers of a cluster that runs on this machine.

The cluster is found by its data directory, in which it listens for its owner. Without a broker's
number a command is for all of them; the parent and the store run on until `down`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from klamm.cli.cluster.running import DataOption
from klamm.cli.options import Output, OutputOption, new_app
from klamm.cli.output import print_json, say, say_text, table
from klamm.cli.parsing.declared import Argument, Option
from klamm.model.errors import UsageError

app = new_app("Operate the brokers of a cluster that runs on this machine.")

BrokerArgument = Annotated[int | None, Argument(help="the broker's number [all]")]
_Timeout = Annotated[float, Option(help="how long to wait for in-sync sets, in seconds")]

_Row = dict[str, object]

_DONE = {
    "stop": "stopped",
    "kill": "killed",
    "start": "started",
    "pause": "paused",
    "resume": "resumed",
}
# What a broker must be for a command that is for all of them to mean it, too.
_MEANT = {
    "stop": ("running", "paused"),
    "kill": ("running", "paused"),
    "start": ("stopped", "killed", "failed"),
    "pause": ("running",),
    "resume": ("paused",),
}
# All at once, leaders and in-sync sets stay what they are.
_TOGETHER = {"stop": "stop-all", "start": "start-all"}


@app.command()
def status(data: DataOption = None, output: OutputOption = Output.TEXT) -> None:
    """Show every broker, its process and what it is doing.

    Example: klamm cluster status --data ./data
    """
    found = _ask(data, "status")
    if output is Output.JSON:
        print_json(found)
        return
    say(f"process {found['pid']}, data {found['data']}")
    if found["zookeeper"]:
        say(f"store served at {found['zookeeper']}")
    headers = ("broker", "state", "process", "address", "controller")
    rows = [
        (b["id"], b["state"], b["pid"] or "", b["address"], "yes" if b["controller"] else "")
        for b in found["brokers"]
    ]
    say_text(table(headers, rows))
    if found["out_of_sync"]:
        say(f"{found['out_of_sync']} partitions lack replicas in sync")


@app.command()
def stop(
    broker: BrokerArgument = None, data: DataOption = None, output: OutputOption = Output.TEXT
) -> None:
    """Stop brokers in a controlled way: leaderships move first.

    Example: klamm cluster stop 1
    """
    _tell(_each("stop", broker, data), output)


@app.command()
def kill(
    broker: BrokerArgument = None, data: DataOption = None, output: OutputOption = Output.TEXT
) -> None:
    """Kill brokers (kill -9).

    Example: klamm cluster kill 1
    """
    _tell(_each("kill", broker, data), output)


@app.command()
def start(
    broker: BrokerArgument = None, data: DataOption = None, output: OutputOption = Output.TEXT
) -> None:
    """Start brokers that do not run, on the ports and the data they had.

    Example: klamm cluster start 1
    """
    _tell(_each("start", broker, data), output)


@app.command()
def pause(
    broker: BrokerArgument = None, data: DataOption = None, output: OutputOption = Output.TEXT
) -> None:
    """Pause brokers (SIGSTOP): they are there and do nothing.

    Example: klamm cluster pause 1
    """
    _tell(_each("pause", broker, data), output)


@app.command()
def resume(
    broker: BrokerArgument = None, data: DataOption = None, output: OutputOption = Output.TEXT
) -> None:
    """Let paused brokers go on (SIGCONT).

    Example: klamm cluster resume 1
    """
    _tell(_each("resume", broker, data), output)


@app.command()
def restart(
    broker: BrokerArgument = None, data: DataOption = None, output: OutputOption = Output.TEXT
) -> None:
    """Stop brokers in a controlled way and start them again, all at once.

    Example: klamm cluster restart 1
    """
    done = [row for verb in ("stop", "start") for row in _each(verb, broker, data)]
    _tell(done, output)


@app.command("rolling-restart")
def rolling_restart(
    data: DataOption = None, timeout: _Timeout = 300.0, output: OutputOption = Output.TEXT
) -> None:
    """Restart one broker after the other; wait for full in-sync sets between them.

    Example: klamm cluster rolling-restart
    """
    found = _ask(data, "status")["brokers"]
    done: list[_Row] = []
    for at in [b["id"] for b in sorted(found, key=lambda b: (b["controller"], b["id"]))]:
        _ask(data, "in-sync", timeout_s=timeout)
        for verb in ("stop", "start"):
            row = _one(verb, at, data)
            done.append(row)
            if output is Output.TEXT:
                _tell([row], output)
    _ask(data, "in-sync", timeout_s=timeout)
    if output is Output.TEXT:
        say("all replicas are in sync")
    else:
        print_json(done)


@app.command()
def down(data: DataOption = None, output: OutputOption = Output.TEXT) -> None:
    """End the whole cluster, as Ctrl-C does where it runs.

    Example: klamm cluster down --data ./data
    """
    _ask(data, "down")
    if output is Output.JSON:
        print_json({"state": "stopping"})
    else:
        say("the cluster stops")


def _each(verb: str, broker: int | None, data: Path | None) -> list[_Row]:
    """Do this to one broker, or to all for which it makes sense."""
    if broker is not None:
        return [_one(verb, broker, data)]
    chosen = _meant(verb, data)
    if chosen and verb in _TOGETHER:
        _ask(data, _TOGETHER[verb])
        return [{"broker": at, "done": _DONE[verb]} for at in chosen]
    return [_one(verb, at, data) for at in chosen]


def _meant(verb: str, data: Path | None) -> list[int]:
    """The brokers for which a command makes sense, the controller last."""
    found = _ask(data, "status")["brokers"]
    meant = [b for b in found if b["state"] in _MEANT[verb]]
    if not meant:
        states = ", ".join(f"broker {b['id']} is {b['state']}" for b in found)
        raise UsageError(f"there is no broker to {verb}: {states}")
    return [b["id"] for b in sorted(meant, key=lambda b: (b["controller"], b["id"]))]


def _one(verb: str, broker: int, data: Path | None) -> _Row:
    _ask(data, verb, broker=broker)
    return {"broker": broker, "done": _DONE[verb]}


def _tell(rows: Sequence[_Row], output: Output) -> None:
    if output is Output.JSON:
        print_json(rows)
    else:
        say(*(f"broker {row['broker']} {row['done']}" for row in rows))


def _ask(data: Path | None, what: str, **details: Any) -> Any:
    from klamm.app.control import ask
    from klamm.datadir import default_data

    return asyncio.run(ask(data or default_data(), what, **details))
