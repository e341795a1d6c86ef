"""`klamm profile`: give clusters names, and choose one."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

from klamm.cli import profiles
from klamm.cli.options import Output, OutputOption, new_app
from klamm.cli.output import print_json, say_text, table, tell
from klamm.cli.parsing.declared import Argument, Option
from klamm.cli.profiles import Profile, Profiles
from klamm.client import addresses, settings
from klamm.model.errors import UsageError

app = new_app("Give clusters names, and choose the one that commands are for.")

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
NameArgument = Annotated[str, Argument(metavar="NAME")]


@app.command()
def create(
    name: NameArgument,
    servers: Annotated[str, Option("--bootstrap-server", "-b", metavar="HOST:PORT,...")],
    properties: Annotated[
        list[str] | None,
        Option(
            "--command-config",
            "-X",
            metavar="FILE|NAME=VALUE",
            help="properties of a client, such as a file with TLS and SASL; repeatable",
        ),
    ] = None,
    use: Annotated[bool, Option("--use", help="use it from now on")] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Keep a cluster's addresses and client properties under a name; replaces one of that name.

    Example: klamm profile create test -b 127.0.0.1:9092 -X clients/alice.properties --use
    """
    if not _NAME.fullmatch(name):
        raise UsageError(f"a profile's name has letters, digits, '.', '_' and '-', not {name!r}")
    addresses.parse_bootstrap(servers)
    sources = tuple(_lasting(source) for source in properties or ())
    settings.gathered(sources)  # raises where one of them cannot be read
    found = profiles.load()
    made = Profile(name, servers, sources)
    profiles.save(Profiles({**found.known, name: made}, name if use else found.current))
    told = (
        f"profile {name} is in use"
        if use
        else f"wrote profile {name}; klamm profile use {name} chooses it"
    )
    tell(output, _json(made, found if not use else replace(found, current=name)), told)


@app.command()
def use(name: NameArgument, output: OutputOption = Output.TEXT) -> None:
    """Use a profile for every command that names no cluster.

    Example: klamm profile use test
    """
    found = profiles.load()
    chosen = found.find(name)
    profiles.save(replace(found, current=name))
    tell(output, {"current": name}, f"commands go to {chosen.bootstrap_server} from now on")


@app.command("list")
def list_(output: OutputOption = Output.TEXT) -> None:
    """List the profiles.

    Example: klamm profile list
    """
    found = profiles.load()
    if output is Output.JSON:
        print_json([_json(profile, found) for profile in found.known.values()])
    elif found.known:
        rows = [
            (p.name, p.bootstrap_server, "yes" if p.name == found.current else "")
            for p in found.known.values()
        ]
        say_text(table(("profile", "brokers", "in use"), rows))


@app.command()
def show(name: NameArgument, output: OutputOption = Output.TEXT) -> None:
    """Show one profile; of properties that may be secret only the names.

    Example: klamm profile show test
    """
    found = profiles.load()
    told = _json(found.find(name), found)
    tell(output, told, *[f"{key}: {value}" for key, value in told.items()])


@app.command()
def remove(name: NameArgument, output: OutputOption = Output.TEXT) -> None:
    """Forget a profile.

    Example: klamm profile remove test
    """
    found = profiles.load()
    found.find(name)
    known = {each: profile for each, profile in found.known.items() if each != name}
    profiles.save(Profiles(known, None if found.current == name else found.current))
    tell(output, {"removed": name}, f"removed profile {name}")


def _lasting(source: str) -> str:
    """A file by its whole path: the next command may be given elsewhere."""
    return source if "=" in source else str(Path(source).expanduser().absolute())


def _json(profile: Profile, found: Profiles) -> dict[str, object]:
    shown = [s.partition("=")[0] + "=..." if "=" in s else s for s in profile.command_config]
    return {
        "name": profile.name,
        "bootstrap_server": profile.bootstrap_server,
        "command_config": shown,
        "in_use": profile.name == found.current,
    }
