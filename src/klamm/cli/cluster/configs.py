"""`klamm configs`: read and change the settings of topics and brokers.

With `--offline` it works on the store of a cluster that does not run (`offline.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from klamm.cli.asking import run
from klamm.cli.cluster import offline as stores
from klamm.cli.facts import BUILT_IN, SOURCES, settings_of
from klamm.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    DryRunOption,
    Output,
    OutputOption,
    Reach,
    new_app,
    parse_pairs,
)
from klamm.cli.output import (
    print_json,
    say,
    say_text,
    table,
    tell,
)
from klamm.cli.parsing.declared import Argument, Option
from klamm.cli.topics.changes import alter_settings, unset_settings
from klamm.client.aio.admin import ConfigResource
from klamm.model.alterations import ConfigResourceType
from klamm.model.errors import NotThere, UsageError

app = new_app("Read and change the settings of topics and brokers.")

TopicOption = Annotated[str | None, Option("--topic", "-t", help="the settings of this topic")]
BrokerOption = Annotated[int | None, Option("--broker", help="the settings of this broker")]
BrokersOption = Annotated[bool, Option("--brokers", help="the defaults of all brokers")]
OfflineOption = Annotated[bool, Option("--offline", help="work on the store of a stopped cluster")]
DataOption = Annotated[
    Path | None, Option(help="with --offline: the data directory [$XDG_STATE_HOME/klamm]")
]
ZooKeeperOption = Annotated[
    str | None,
    Option(metavar="HOST:PORT,...", help="with --offline: the cluster's ZooKeeper"),
]


@app.command()
def get(
    names: Annotated[
        list[str] | None, Argument(metavar="[NAME]...", help="default: all that were set")
    ] = None,
    topic: TopicOption = None,
    broker: BrokerOption = None,
    brokers: BrokersOption = False,
    everything: Annotated[bool, Option("--all", help="print built-in defaults too")] = False,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
    offline: OfflineOption = False,
    data: DataOption = None,
    zookeeper: ZooKeeperOption = None,
) -> None:
    """Show settings, and where each value comes from.

    Example: klamm configs get -t orders --all
    """
    subject = _subject(topic, broker, brokers)
    place = _place(offline, data, zookeeper, bootstrap_server)
    if place is not None:
        if everything:
            raise UsageError("--offline knows only what was set, not the defaults: leave out --all")
        _show_stored(stores.stored(place, subject), names or (), output)
        return
    found = run(bootstrap_server, lambda admin: settings_of(admin, subject))
    if names:
        unknown = set(names) - {entry.name for entry in found}
        if unknown:
            raise NotThere(f"there is no setting {min(unknown)!r}")
        found = [entry for entry in found if entry.name in names]
    elif not everything:
        found = [entry for entry in found if entry.config_source != BUILT_IN]
    if output is Output.JSON:
        source = SOURCES
        print_json({e.name: {"value": e.value, "source": source[e.config_source]} for e in found})
    elif found:
        rows = [(e.name, e.value or "", SOURCES[e.config_source].lower()) for e in found]
        say_text(table(("setting", "value", "source"), rows))
    else:
        say("nothing was set; --all prints the defaults", to=sys.stderr)


@app.command("set")
def set_(
    pairs: Annotated[list[str], Argument(metavar="NAME=VALUE...")],
    topic: TopicOption = None,
    broker: BrokerOption = None,
    brokers: BrokersOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
    offline: OfflineOption = False,
    data: DataOption = None,
    zookeeper: ZooKeeperOption = None,
) -> None:
    """Change settings of a running cluster, or of a stopped one with --offline.

    Example: klamm configs set -t orders retention.ms=3600000
    """
    subject = _subject(topic, broker, brokers)
    wanted = parse_pairs(pairs, option="configs set")
    place = _place(offline, data, zookeeper, bootstrap_server)
    if place is not None:
        stores.change(place, subject, wanted, (), dry_run=dry_run)
    else:
        run(bootstrap_server, lambda admin: alter_settings(admin, subject, wanted, (), dry_run))
    tell(
        output,
        {"set": wanted, "dry_run": dry_run},
        f"{'would set' if dry_run else 'set'} {', '.join(wanted)}",
    )


@app.command()
def unset(
    names: Annotated[list[str], Argument(metavar="NAME...")],
    topic: TopicOption = None,
    broker: BrokerOption = None,
    brokers: BrokersOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
    offline: OfflineOption = False,
    data: DataOption = None,
    zookeeper: ZooKeeperOption = None,
) -> None:
    """Reset settings to their defaults.

    Example: klamm configs unset -t orders retention.ms
    """
    subject = _subject(topic, broker, brokers)
    place = _place(offline, data, zookeeper, bootstrap_server)
    never: list[str] = []
    if place is not None:
        stores.change(place, subject, {}, names, dry_run=dry_run)
    else:
        names, never = run(
            bootstrap_server, lambda admin: unset_settings(admin, subject, names, dry_run)
        )
    done = [f"{'would unset' if dry_run else 'unset'} {', '.join(names)}"] if names else []
    tell(
        output,
        {"unset": names, "not_set": never, "dry_run": dry_run},
        *[f"{name} was not set" for name in never],
        *done,
    )


def _subject(topic: str | None, broker: int | None, brokers: bool) -> ConfigResource:
    """Whose settings."""
    if (topic is not None) + (broker is not None) + brokers != 1:
        raise UsageError("give exactly one of --topic NAME, --broker ID, --brokers")
    if topic is not None:
        return ConfigResource(ConfigResourceType.TOPIC, topic)
    return ConfigResource(ConfigResourceType.BROKER, "" if broker is None else str(broker))


def _place(
    offline: bool, data: Path | None, zookeeper: str | None, reach: Reach
) -> stores.StorePlace | None:
    """The store to read instead of asking brokers, if that was asked for."""
    if data is not None and zookeeper is not None:
        raise UsageError("--data and --zookeeper cannot be used together")
    if offline:
        # What else would be a client's properties says how the ZooKeeper is reached.
        return stores.StorePlace(data, zookeeper, reach.sources)
    if data is not None or zookeeper is not None:
        raise UsageError("--data and --zookeeper need --offline; use -b to reach a running cluster")
    return None


def _show_stored(found: Mapping[str, str], names: Sequence[str], output: Output) -> None:
    shown = {name: text for name, text in found.items() if not names or name in names}
    if output is Output.JSON:
        print_json({name: {"value": text, "source": "STORED"} for name, text in shown.items()})
    elif shown:
        say_text(
            table(("setting", "value", "source"), [(n, t, "stored") for n, t in shown.items()])
        )
