"""`klamm completion`: shell completion, with the names of topics, groups and brokers.

The scripts ask `klamm __complete` for what may stand next. It looks at the commands themselves, and
at the cluster where a name is wanted; a cluster that does not answer at once has no names.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from importlib import import_module
from typing import Annotated, Final

from klamm.cli import profiles
from klamm.cli.options import DEFAULT_BOOTSTRAP, new_app
from klamm.cli.output import say, say_text
from klamm.cli.parsing.app import App, Command
from klamm.cli.parsing.declared import Argument, Param
from klamm.cli.parsing.words import Words
from klamm.cli.reach import Reach
from klamm.client.aio.admin import Admin
from klamm.client.aio.cluster import Client
from klamm.client.aio.groups import Groups

app = new_app("Print a script that completes commands and names in your shell.")

_PATIENCE_S: Final = 1.5
_GLOBAL: Final = ("--debug", "--help", "--profile", "--version")


class Shell(StrEnum):
    """The shells that are known."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


_SCRIPTS: Final[Mapping[Shell, str]] = {
    Shell.BASH: r"""_klamm() {
    local IFS=$'\n'
    COMPREPLY=($(klamm __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _klamm klamm""",
    Shell.ZSH: r"""#compdef klamm
_klamm() {
    local -a found
    found=("${(@f)$(klamm __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then compadd -- "${found[@]}"; else _files; fi
}
if (( $+functions[compdef] )); then compdef _klamm klamm; fi""",
    Shell.FISH: r"""function __klamm_complete
    set -l words (commandline -opc) (commandline -ct)
    klamm __complete -- $words[2..-1] 2>/dev/null
end
complete -c klamm -a '(__klamm_complete)'""",
}


@app.command()
def completion(
    shell: Annotated[Shell, Argument(help="the shell the script is for")],
) -> None:
    """Print the completion script of a shell; load it in the shell's start-up file.

    Example: eval "$(klamm completion bash)"
    """
    say_text(_SCRIPTS[shell])


def answer(args: Sequence[str], commands: Mapping[str, str]) -> int:
    """`klamm __complete -- WORDS`: print what may stand in place of the last word."""
    words = list(args[1:] if args[:1] == ["--"] else args) or [""]
    partial = words[-1]
    say(*[word for word in sorted(set(_candidates(words, commands))) if word.startswith(partial)])
    return 0


def _candidates(words: Sequence[str], commands: Mapping[str, str]) -> list[str]:
    while len(words) > 1 and words[0] in ("--debug", "--profile"):
        if words[0] == "--profile" and len(words) == 2:
            return list(profiles.load().known)
        words = words[1 if words[0] == "--debug" else 2 :]
    if len(words) <= 1:
        return [*commands, *_GLOBAL]
    module = import_module(f"klamm.cli.{commands[words[0]]}") if words[0] in commands else None
    # A command that is one thing and several at once has an app for each.
    apps = [made for made in vars(module).values() if isinstance(made, App)] if module else []
    return [word for made in apps for word in _of_app(made, words[1:])]


def _of_app(chosen: App, words: Sequence[str]) -> list[str]:
    if chosen.alone is not None:
        return _of_command(chosen.alone, words)
    if len(words) == 1:
        return [*chosen.commands, "--help"]
    command = chosen.commands.get(words[0])
    return [] if command is None else _of_command(command, words[1:])


def _of_command(command: Command, words: Sequence[str]) -> list[str]:
    sorted_ = Words(command.params)
    wanted = sorted_.sift(words[:-1])
    if sorted_.open is None and words[-1].startswith("-"):
        return sorted_.flags
    return [] if wanted is None else _values(wanted, sorted_.given)


def _values(param: Param, given: Mapping[str, list[str]]) -> list[str]:
    if param.choices:
        return param.choices
    look = _NAMES.get(param.name)
    return [] if look is None else _ask(_reach(given), look)


def _reach(given: Mapping[str, list[str]]) -> Reach:
    """The cluster that the words so far are about."""
    named = given.get("bootstrap_server", [""])[-1] or os.environ.get("KLAMM_BOOTSTRAP_SERVER", "")
    sources = tuple(given.get("command_config", ()))
    first = os.environ.get("KLAMM_COMMAND_CONFIG")
    sources = (first, *sources) if first else sources
    profile = None if named else profiles.in_use()
    if profile is not None:
        return Reach(profile.bootstrap_server, (*profile.command_config, *sources))
    return Reach(named or DEFAULT_BOOTSTRAP.servers, sources)


Look = Callable[[Admin], Awaitable[list[str]]]


def _ask(place: Reach, look: Look) -> list[str]:
    async def main() -> list[str]:
        given = place.settings
        client = Client(place.servers) if given is None else Client.of(place.servers, given)
        async with asyncio.timeout(_PATIENCE_S), client:
            return await look(Admin(client))

    try:
        return asyncio.run(main())
    except Exception:  # noqa: BLE001 - whatever is wrong, a shell that completes is no place to say it
        return []


async def _topics(admin: Admin) -> list[str]:
    return list(await admin.topics())


async def _partitions(admin: Admin) -> list[str]:
    found = await admin.topics()
    return [f"{name}-{p.partition_index}" for name, t in found.items() for p in t.partitions]


async def _groups(admin: Admin) -> list[str]:
    return [group.group_id for group in await Groups(admin.client).all()]


async def _brokers(admin: Admin) -> list[str]:
    return [str(broker) for broker in (await admin.client.refresh([])).nodes]


# The names of parameters say what they are about.
_NAMES: Final[Mapping[str, Look]] = {
    "topic": _topics,
    "topics": _topics,
    "name": _topics,
    "names": _topics,
    "source": _topics,
    "group": _groups,
    "groups": _groups,
    "broker": _brokers,
    "forget_broker": _brokers,
    "partitions": _partitions,
}
