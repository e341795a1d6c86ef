"""The command line as data, for the reference page and for the check of the docs.

It is read from the signatures of the commands, so that it does not depend on how the installed
Typer builds its parser.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

from klamm.cli.__main__ import SECTIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """One argument or option of a command."""

    names: tuple[str, ...]  # empty for an argument
    value: str  # what stands for its value; '' for a flag
    default: object
    help: str
    env: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One command that does something itself."""

    words: tuple[str, ...]  # without `klamm`
    help: str
    params: tuple[Param, ...]


def leaves(name: str, module: str) -> list[Leaf]:
    """All that one word after `klamm` can do."""
    loaded = import_module(f"klamm.cli.{module}")
    # A command that is one thing and a group at once has an app for each.
    apps = [made for made in vars(loaded).values() if isinstance(made, typer.Typer)]
    if apps:
        return [leaf for app in apps for leaf in _of_app((name,), app)]
    params = [
        Param(names=(f"--{o.name}",), value=o.value, default=None, help=o.help, env="")
        for o in loaded.OPTIONS
    ]
    return [Leaf(words=(name,), help="", params=tuple(params))]


def all_leaves() -> list[Leaf]:
    """Every command there is."""
    named = (item for commands in SECTIONS.values() for item in commands.items())
    return [leaf for name, command in named for leaf in leaves(name, command.module)]


def _of_app(words: tuple[str, ...], app: typer.Typer) -> Iterator[Leaf]:
    commands = app.registered_commands
    is_alone = len(commands) == 1 and not app.registered_groups and not app.registered_callback
    for command in commands:
        callback = command.callback
        assert callback is not None, words
        own = command.name or callback.__name__.replace("_", "-")
        yield Leaf(
            words=words if is_alone else (*words, own),
            help=inspect.cleandoc(command.help or callback.__doc__ or ""),
            params=tuple(_params(callback)),
        )
    for group in app.registered_groups:
        assert group.typer_instance is not None, words
        yield from _of_app((*words, str(group.name)), group.typer_instance)


def _params(callback: Any) -> Iterator[Param]:
    hints = get_type_hints(callback, include_extras=True)
    for name, parameter in inspect.signature(callback).parameters.items():
        kind, info = _split(hints[name])
        if info is None or info.hidden:
            continue
        default = None if parameter.default is inspect.Parameter.empty else parameter.default
        is_option = isinstance(info, OptionInfo)
        yield Param(
            names=_names(name, info) if is_option else (),
            value=_value(name, kind, info, is_option=is_option, default=parameter.default),
            default=default.value if isinstance(default, Enum) else default,
            help=" ".join((info.help or "").split()),
            env=str(info.envvar or ""),
        )


def _names(name: str, info: OptionInfo) -> tuple[str, ...]:
    # Within Annotated, Typer finds the first name where the default stands elsewhere.
    first = (info.default,) if isinstance(info.default, str) else ()
    given = (*first, *(info.param_decls or ())) or (f"--{name.replace('_', '-')}",)
    # A switch may have a name for yes and one for no.
    return tuple(one for names in given for one in names.split("/"))


def _split(hint: Any) -> tuple[Any, OptionInfo | ArgumentInfo | None]:
    if get_origin(hint) is not Annotated:
        return hint, None
    kind, *extras = get_args(hint)
    infos = [extra for extra in extras if isinstance(extra, OptionInfo | ArgumentInfo)]
    return kind, infos[0] if infos else None


def _value(name: str, kind: Any, info: Any, *, is_option: bool, default: object) -> str:
    """How the value is written: NAME, [NAME]..., one|two, INTEGER."""
    inner, is_many = _inner(kind)
    if is_option and inner is bool:
        return ""
    if info.metavar:
        return str(info.metavar)
    if isinstance(inner, type) and issubclass(inner, Enum):
        text = "|".join(str(choice.value) for choice in inner)
    elif is_option:
        text = {int: "INTEGER", float: "NUMBER"}.get(inner, "TEXT")
    else:
        text = name.upper()
    if is_option:
        return text
    if default is not inspect.Parameter.empty:
        text = f"[{text}]"
    return f"{text}..." if is_many else text


def _inner(kind: Any) -> tuple[Any, bool]:
    """The type of one value, and whether there may be several."""
    if get_origin(kind) in (Union, UnionType):
        kind = next(part for part in get_args(kind) if part is not NoneType)
    if get_origin(kind) is list:
        return get_args(kind)[0], True
    return kind, False
