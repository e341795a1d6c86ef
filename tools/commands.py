"""The command line as data, for the reference page and for the check of the docs.

It is what the parser itself goes by.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from importlib import import_module

from klamm.cli.__main__ import SECTIONS
from klamm.cli.parsing import declared
from klamm.cli.parsing.app import App


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
    apps = [made for made in vars(loaded).values() if isinstance(made, App)]
    if apps:
        return [leaf for app in apps for leaf in _of_app(name, app)]
    params = [
        Param(names=(f"--{o.name}",), value=o.value, default=None, help=o.help, env="")
        for o in loaded.OPTIONS
    ]
    return [Leaf(words=(name,), help="", params=tuple(params))]


def all_leaves() -> list[Leaf]:
    """Every command there is."""
    named = (item for commands in SECTIONS.values() for item in commands.items())
    return [leaf for name, command in named for leaf in leaves(name, command.module)]


def _of_app(name: str, app: App) -> Iterator[Leaf]:
    for own, command in app.commands.items():
        yield Leaf(
            words=(name,) if app.alone else (name, own),
            help=inspect.cleandoc(command.help),
            params=tuple(map(_param, command.params)),
        )


def _param(found: declared.Param) -> Param:
    default = found.default
    return Param(
        names=(*found.flags, *found.flags_off),
        value=found.metavar,
        default=default.value if isinstance(default, Enum) else default,
        help=found.help,
        env=found.envvar,
    )
