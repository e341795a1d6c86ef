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
from typing import Annotated, Any, Final

import typer

from klamm.cli import profiles
from klamm.cli.options import DEFAULT_BOOTSTRAP, new_app
from klamm.cli.output import say, say_text
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
    shell: Annotated[Shell, typer.Argument(help="the shell the script is for")],
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
    loaded = import_module(f"klamm.cli.{commands[words[0]]}").app if words[0] in commands else None
    if not isinstance(loaded, typer.Typer):
        return []
    command: Any = typer.main.get_command(loaded)
    rest = list(words[1:])
    while hasattr(command, "commands"):
        if len(rest) == 1:
            return [*command.commands, "--help"]
        if rest[0] not in command.commands:
            return []
        command, rest = command.commands[rest[0]], rest[1:]
    return _of_leaf(command, rest)


def _of_leaf(command: Any, words: list[str]) -> list[str]:
    options = {flag: param for param in command.params for flag in param.opts if flag[:1] == "-"}
    seen, wanted, at = words[:-1], None, 0
    given: dict[str, list[str]] = {}
    while at < len(seen):
        param = options.get(seen[at])
        if param is None or param.is_flag:
            if param is None:
                given.setdefault("", []).append(seen[at])
            at += 1
        elif at + 1 == len(seen):
            wanted, at = param, at + 1
        else:
            given.setdefault(param.name, []).append(seen[at + 1])
            at += 2
    if wanted is None and words[-1].startswith("-"):
        return [*options, "--help"]
    if wanted is None:
        wanted = _positional(command, len(given.get("", ())))
    return [] if wanted is None else _values(wanted, given)


def _positional(command: Any, count: int) -> Any | None:
    """The argument that comes after so many others."""
    places = [param for param in command.params if param.param_type_name == "argument"]
    for param in places:
        if param.nargs == -1 or count == 0:
            return param
        count -= 1
    return None


def _values(param: Any, given: Mapping[str, list[str]]) -> list[str]:
    if choices := _choices(param):
        return choices
    look = _NAMES.get(param.name)
    return [] if look is None else _ask(_reach(given), look)


def _choices(param: Any) -> list[str]:
    """The words of a parameter that takes only some; versions of Typer keep them in two places."""
    kind = getattr(getattr(param, "type_descriptor", None), "annotation", None)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return [member.value for member in kind]
    found = getattr(getattr(param, "type", None), "choices", ())
    return [str(getattr(choice, "value", choice)) for choice in found]


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
