"""The declarations of a command: each parameter of its function is an argument or an option.

def create(name: Annotated[str, Argument(help="...")], count: Annotated[int, Option("-n")] = 1): ...

A parameter without a declaration is an argument where it has no default, an option where it has.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

_KINDS: Final = {int: "INTEGER", float: "NUMBER"}


class Argument:
    """A word that stands by itself."""

    def __init__(self, *, metavar: str = "", help: str = "") -> None:
        self.metavar = metavar  # stands for the value in the help
        self.help = help


class Option:
    """A word that is named, or a switch.

    `bare` is the value of an option that stands without one. A switch called `--exact/--append` has
    a name for yes and one for no.
    """

    def __init__(
        self,
        *flags: str,
        metavar: str = "",
        help: str = "",
        envvar: str = "",
        min: float | None = None,
        max: float | None = None,
        parser: Callable[[str], object] | None = None,
        bare: str | None = None,
        show_default: bool = True,
    ) -> None:
        self.flags = flags
        self.metavar = metavar
        self.help = help
        self.envvar = envvar
        self.min = min
        self.max = max
        self.parser = parser
        self.bare = bare
        self.show_default = show_default


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """One argument or option of a command."""

    name: str  # in Python
    flags: tuple[str, ...]  # empty for an argument
    flags_off: tuple[str, ...]  # of a switch: what says no
    kind: Any  # of one value
    is_many: bool
    default: object
    is_required: bool
    declared: Option | Argument

    @property
    def is_option(self) -> bool:
        return isinstance(self.declared, Option)

    @property
    def is_switch(self) -> bool:
        return self.is_option and self.kind is bool

    @property
    def help(self) -> str:
        return " ".join(self.declared.help.split())

    @property
    def envvar(self) -> str:
        return self.declared.envvar if isinstance(self.declared, Option) else ""

    @property
    def choices(self) -> list[str]:
        """The words that are taken, where only some are."""
        is_choice = isinstance(self.kind, type) and issubclass(self.kind, Enum)
        return [str(member.value) for member in self.kind] if is_choice else []

    @property
    def metavar(self) -> str:
        """The value as the help writes it: NAME, [NAME]..., one|two, INTEGER; '' for a switch."""
        if self.is_switch:
            return ""
        text = self.declared.metavar or "|".join(self.choices)
        if self.is_option:
            return text or _KINDS.get(self.kind, "TEXT")
        if self.declared.metavar:
            return text
        text = text or self.name.upper()
        return f"{text if self.is_required else f'[{text}]'}{'...' if self.is_many else ''}"


def parameters(function: Callable[..., object]) -> Iterator[Param]:
    """The arguments and options of a command, in the order of its signature."""
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        yield parameter_of(name, hints[name], parameter.default)


def parameter_of(name: str, hint: Any, default: object = inspect.Parameter.empty) -> Param:
    """One parameter, by its name, annotation and default."""
    is_required = default is inspect.Parameter.empty
    kind, declared = _parted(hint)
    if declared is None:
        declared = Argument() if is_required else Option()
    kind, is_many = _one_of(kind)
    flags, flags_off = _flags(name, kind, declared)
    return Param(
        name=name,
        flags=flags,
        flags_off=flags_off,
        kind=kind,
        is_many=is_many,
        default=None if is_required else default,
        is_required=is_required,
        declared=declared,
    )


def _flags(
    name: str, kind: Any, declared: Option | Argument
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if not isinstance(declared, Option):
        return (), ()
    long = name.replace("_", "-")
    given = declared.flags or ((f"--{long}/--no-{long}" if kind is bool else f"--{long}"),)
    parted = [flag.partition("/") for flag in given]
    return tuple(on for on, _, _ in parted), tuple(off for _, _, off in parted if off)


def _parted(hint: Any) -> tuple[Any, Option | Argument | None]:
    if get_origin(hint) is not Annotated:
        return hint, None
    kind, declared = get_args(hint)
    assert isinstance(declared, Option | Argument), f"{declared!r} declares no option or argument"
    return kind, declared


def _one_of(kind: Any) -> tuple[Any, bool]:
    """The type of one value, and whether there may be several."""
    if get_origin(kind) in (Union, UnionType):
        kind = next(part for part in get_args(kind) if part is not NoneType)
    return (get_args(kind)[0], True) if get_origin(kind) is list else (kind, False)
