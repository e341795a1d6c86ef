"""`klamm configs`: read and change the settings of topics and brokers."""

from __future__ import annotations

from typing import Annotated

import typer

from klamm.cli.asking import run
from klamm.cli.facts import BUILT_IN, SOURCES, settings_of
from klamm.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    DryRunOption,
    Output,
    OutputOption,
    new_app,
    parse_pairs,
)
from klamm.cli.output import print_json, say, say_text, table
from klamm.cli.topic_changes import alter_settings
from klamm.client.admin import Resource, ResourceType
from klamm.model.errors import UsageError

app = new_app("Read and change the settings of topics and brokers.")

TopicOption = Annotated[str | None, typer.Option("--topic", "-t", help="of this topic")]
BrokerOption = Annotated[int | None, typer.Option("--broker", help="of this broker")]
BrokersOption = Annotated[bool, typer.Option("--brokers", help="the default of all brokers")]


@app.command()
def get(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="default: what was set")
    ] = None,
    topic: TopicOption = None,
    broker: BrokerOption = None,
    brokers: BrokersOption = False,
    everything: Annotated[bool, typer.Option("--all", help="built-in defaults too")] = False,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Show settings, and where each value comes from."""
    subject = _subject(topic, broker, brokers)
    found = run(bootstrap_server, lambda admin: settings_of(admin, subject))
    if names:
        unknown = set(names) - {entry.name for entry in found}
        if unknown:
            raise UsageError(f"there is no setting {min(unknown)!r}")
        found = [entry for entry in found if entry.name in names]
    elif not everything:
        found = [entry for entry in found if entry.config_source != BUILT_IN]
    if output is Output.JSON:
        source = SOURCES
        print_json({e.name: {"value": e.value, "source": source[e.config_source]} for e in found})
    elif found:
        rows = [(e.name, e.value or "", SOURCES[e.config_source].lower()) for e in found]
        say_text(table(("setting", "value", "source"), rows))


@app.command("set")
def set_(
    pairs: Annotated[list[str], typer.Argument(metavar="NAME=VALUE...")],
    topic: TopicOption = None,
    broker: BrokerOption = None,
    brokers: BrokersOption = False,
    dry_run: DryRunOption = False,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Change settings while the cluster runs."""
    subject = _subject(topic, broker, brokers)
    wanted = parse_pairs(pairs, option="configs set")
    run(bootstrap_server, lambda admin: alter_settings(admin, subject, wanted, (), dry_run))
    say(f"{'would set' if dry_run else 'set'} {', '.join(wanted)}")


@app.command()
def unset(
    names: Annotated[list[str], typer.Argument(metavar="NAME...")],
    topic: TopicOption = None,
    broker: BrokerOption = None,
    brokers: BrokersOption = False,
    dry_run: DryRunOption = False,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Let settings fall back to their defaults."""
    subject = _subject(topic, broker, brokers)
    run(bootstrap_server, lambda admin: alter_settings(admin, subject, {}, names, dry_run))
    say(f"{'would unset' if dry_run else 'unset'} {', '.join(names)}")


def _subject(topic: str | None, broker: int | None, brokers: bool) -> Resource:
    """Whose settings."""
    if (topic is not None) + (broker is not None) + brokers != 1:
        raise UsageError("say whose settings: one of --topic NAME, --broker ID, --brokers")
    if topic is not None:
        return Resource(ResourceType.TOPIC, topic)
    return Resource(ResourceType.BROKER, "" if broker is None else str(broker))
