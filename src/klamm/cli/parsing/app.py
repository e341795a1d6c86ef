"""A command, and several under one name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar

from klamm.cli.output import say_text
from klamm.cli.parsing.declared import Param, parameters
from klamm.cli.parsing.values import values_of
from klamm.cli.parsing.words import HELP, HelpWanted, Words, nearest
from klamm.model.errors import UsageError

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Command:
    """A function that a command line can call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    @property
    def help(self) -> str:
        return self.function.__doc__ or ""

    @cached_property
    def params(self) -> tuple[Param, ...]:
        return tuple(parameters(self.function))

    def read(self, args: Sequence[str]) -> dict[str, Any]:
        """The values that these words give to the function; raises where they do not fit."""
        words = Words(self.params)
        words.take(args)
        return values_of(self.params, words.given)

    def call(self, values: dict[str, Any]) -> None:
        self.function(**values)

    def run(self, args: Sequence[str], prog: str) -> None:
        """Do what the words say, or print the help."""
        try:
            values = self.read(args)
        except HelpWanted:
            from klamm.cli.parsing import manual

            say_text(manual.of_command(prog, self.help, self.params))
            return
        except UsageError as error:
            raise UsageError(f"{error} ({prog} --help shows how it is used)") from None
        self.call(values)


class App:
    """The commands of one word after `klamm`; a single one needs no name of its own."""

    _command: type[Command] = Command

    def __init__(self, summary: str, *, is_group: bool = False) -> None:
        self.summary = summary
        self.commands: dict[str, Command] = {}
        self._is_group = is_group

    @property
    def alone(self) -> Command | None:
        """The command that stands for all of this app."""
        if self._is_group or len(self.commands) != 1:
            return None
        return next(iter(self.commands.values()))

    def command(self, name: str | None = None) -> Callable[[_Function], _Function]:
        """Makes a command of a function."""

        def register(function: _Function) -> _Function:
            own = name or function.__name__.replace("_", "-")
            self.commands[own] = self._command(function)
            return function

        return register

    def __call__(self, *, args: Sequence[str], prog_name: str) -> None:
        """Run the command that these words are for."""
        if self.alone is not None:
            self.alone.run(args, prog_name)
        elif not args or args[0] in HELP:
            from klamm.cli.parsing import manual

            texts = {name: command.help for name, command in self.commands.items()}
            say_text(manual.of_group(prog_name, self.summary, texts))
            raise SystemExit(0 if args else 2)
        elif args[0] not in self.commands:
            near = nearest(args[0], list(self.commands))
            raise UsageError(
                f"there is no {prog_name} {args[0]}{near} ({prog_name} --help lists them)"
            )
        else:
            self.commands[args[0]].run(args[1:], f"{prog_name} {args[0]}")
