"""Takes the words of a command line apart, by the parameters that a command has.

Options and arguments may be mixed, `--name value` is the same as `--name=value`, and `-n5` the same
as `-n 5`. After `--` everything is an argument. An option that is given twice counts as it was
given last, unless it takes several values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from klamm.cli.parsing.declared import Option, Param
from klamm.model.errors import UsageError

HELP: Final = ("-h", "--help")
ON: Final = "true"
OFF: Final = "false"


class HelpWanted(Exception):
    """The words ask for the help of a command."""


class Words:
    """The words of one command line, by parameter."""

    def __init__(self, params: Sequence[Param]) -> None:
        self._options: Mapping[str, Param] = {
            flag: param for param in params for flag in (*param.flags, *param.flags_off)
        }
        self._places = [param for param in params if not param.is_option]
        self.given: dict[str, list[str]] = {}  # by the name of a parameter
        self._loose: list[str] = []
        self.open: Param | None = None  # the option whose value would come next

    def take(self, words: Sequence[str]) -> None:
        """Sort all words; raises where they fit no parameter."""
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word == "--":
                self._loose += rest
                break
            if word.startswith("--"):
                self._long(word, rest)
            elif word.startswith("-") and word != "-":
                self._short(word, rest)
            else:
                self._loose.append(word)
        self._place()

    def sift(self, words: Sequence[str]) -> Param | None:
        """The parameter that the next word is for; what does not fit so far is overlooked."""
        for at, word in enumerate(words):
            if self.open is not None:
                self.given.setdefault(self.open.name, []).append(word)
                self.open = None
            elif (param := self._options.get(word)) is not None:
                if not param.is_switch:
                    self.open = param
            elif not word.startswith("-"):
                self._loose.append(words[at])
        return self.open or self._next_place()

    @property
    def flags(self) -> list[str]:
        """Every word that begins an option."""
        return [*self._options, *HELP]

    def _long(self, word: str, rest: list[str]) -> None:
        flag, equals, value = word.partition("=")
        if flag in HELP:
            raise HelpWanted
        param = self._known(flag)
        if not equals:
            self._value(param, flag, rest)
        elif param.is_switch:
            raise UsageError(f"{flag} takes no value")
        else:
            self._keep(param, value)

    def _short(self, word: str, rest: list[str]) -> None:
        """`-n 5`, `-n5` or switches in one word."""
        letters = word[1:]
        while letters:
            flag, letters = f"-{letters[0]}", letters[1:]
            if flag in HELP:
                raise HelpWanted
            # The whole word is named where it is unknown: `-verbose` is not about `-v`.
            param = self._options.get(flag) or self._known(word)
            if letters and not param.is_switch:
                self._keep(param, letters.removeprefix("="))
                return
            self._value(param, flag, rest)

    def _known(self, flag: str) -> Param:
        param = self._options.get(flag)
        if param is None:
            raise UsageError(f"there is no option {flag}{nearest(flag, self.flags)}")
        return param

    def _value(self, param: Param, flag: str, rest: list[str]) -> None:
        """An option whose value, if it has one, is the next word."""
        bare = param.declared.bare if isinstance(param.declared, Option) else None
        if param.is_switch:
            self._keep(param, OFF if flag in param.flags_off else ON)
        elif bare is not None and (not rest or rest[0].startswith("-")):
            self._keep(param, bare)
        elif not rest or rest[0] in self._options:
            raise UsageError(f"{flag} needs a value: {param.metavar}")
        else:
            self._keep(param, rest.pop(0))

    def _keep(self, param: Param, value: str) -> None:
        if param.is_many:
            self.given.setdefault(param.name, []).append(value)
        else:
            self.given[param.name] = [value]

    def _place(self) -> None:
        """Give the loose words to the arguments; one that takes many takes all that is left."""
        loose = self._loose
        for param in self._places:
            mine, loose = (loose, []) if param.is_many else (loose[:1], loose[1:])
            if mine:
                self.given[param.name] = mine
        if loose:
            raise UsageError(f"{loose[0]!r} is one argument too many")

    def _next_place(self) -> Param | None:
        count = len(self._loose)
        for param in self._places:
            if param.is_many or count == 0:
                return param
            count -= 1
        return None


def nearest(word: str, known: Sequence[str]) -> str:
    """`, did you mean 'list'?` if some known word is like this one."""
    import difflib

    near = difflib.get_close_matches(word, known, n=1)
    return f", did you mean {near[0]}?" if near else ""
