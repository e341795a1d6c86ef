"""The option language of Kafka's own tools, for the drop-in commands.

They differ from klamm's in three ways that scripts depend on: options are long and may stand in any
order, a mistake is exit code 1 with the list of options on stderr, and so is a failure while doing
the work, in one line. One dash is as good as two, there are no abbreviations, and words that
belong to no option are left alone, which is told on stderr.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, NoReturn

from klamm.cli.output import say, say_text
from klamm.model.settings.definition import INT_MAX
from klamm.version import __version__

_INTEGER: Final = re.compile(r"[+-]?[0-9]+\Z")


class ToolOption(NamedTuple):
    """One `--name`; `value` names its argument, '' for a flag."""

    name: str
    value: str
    help: str
    is_optional: bool = False  # its argument may be left out


HELP: Final = ToolOption("help", "", "Print usage information.")
VERSION: Final = ToolOption("version", "", "Display Kafka version.")


def begin(tool: str, about: str, known: Sequence[ToolOption], args: Sequence[str]) -> Options:
    """The options of a command line, unless it asks for help or for the version only."""
    options = Options(tool, known)
    if not args:
        options.usage(about)
    options.parse(args)
    if "help" in options:
        options.usage(about)
    if "version" in options:
        say(f"3.9.0 (klamm {__version__})")
        raise SystemExit(0)
    return options


class Options:
    """The options of one tool, and what was given of them."""

    def __init__(self, tool: str, known: Sequence[ToolOption]) -> None:
        self._tool = tool
        self._known: Mapping[str, ToolOption] = {option.name: option for option in known}
        self._given: dict[str, list[str]] = {}
        self._order: list[tuple[str, str]] = []

    def parse(self, args: Sequence[str]) -> None:
        """Take the arguments apart: `--name value`, `--name=value` or a flag."""
        rest = list(args)
        stray: list[str] = []
        while rest:
            word = rest.pop(0)
            if word == "--":
                stray += rest
                break
            if word.startswith("-"):
                self._take(word, rest)
            else:
                stray.append(word)
        if stray:
            say(f"ignored, for it belongs to no option: {' '.join(stray)}", to=sys.stderr)

    def _take(self, word: str, rest: list[str]) -> None:
        name, equals, value = word.removeprefix("-").removeprefix("-").partition("=")
        option = self._known.get(name)
        if option is None:
            self.fail(f"{name} is not a recognized option")
        values = self._given.setdefault(name, [])
        if option.value:
            if not equals and option.is_optional:
                value = rest.pop(0) if rest and not rest[0].startswith("-") else ""
            elif not equals:
                if not rest or rest[0].startswith("--"):
                    self.fail(f"Option {name} requires an argument")
                value = rest.pop(0)
            values.append(value)
        self._order.append((name, value if option.value else ""))

    def __contains__(self, name: str) -> bool:
        return name in self._given

    def given(self, names: Iterable[str]) -> list[str]:
        """The given ones of these options, in the order asked."""
        return [name for name in names if name in self._given]

    def all(self, name: str) -> list[str]:
        """Every value of a repeatable option."""
        return self._given.get(name, [])

    def in_order(self, *names: str) -> list[tuple[str, str]]:
        """These options as they stood, each with its value, '' for a flag."""
        return [(name, value) for name, value in self._order if name in names]

    def one(self, name: str) -> str | None:
        """The value of an option that is given at most once."""
        values = self.all(name)
        if len(values) > 1:
            self.fail(f"Found multiple arguments for option {name}, but you asked for only one")
        return values[0] if values else None

    def integer(self, name: str) -> int | None:
        text = self.one(name)
        if text is None:
            return None
        if not _INTEGER.match(text) or abs(int(text)) > INT_MAX:
            self.fail(f"Cannot parse argument '{text}' of option {name}")
        return int(text)

    def long(self, name: str) -> int | None:
        """A number that fits 64 bits; exit 1 where it is none."""
        try:
            return self.number(name)
        except ValueError as fault:
            self.fail(str(fault))

    def number(self, name: str) -> int | None:
        """The same for tools that go on with a ValueError."""
        text = self.one(name)
        if text is None:
            return None
        if not _INTEGER.match(text) or not -(1 << 63) <= int(text[:21]) < 1 << 63:
            raise ValueError(f"Cannot parse argument '{text}' of option {name}")
        return int(text)

    def pairs(self, name: str) -> dict[str, str]:
        """The `k=v` of a repeatable option; what has no value has an empty one."""
        parted = (text.partition("=") for text in self.all(name))
        return {key: value for key, _, value in parted}

    def require(self, *names: str) -> None:
        """Each of these must have been given."""
        for name in names:
            if name not in self._given:
                self.usage(f'Missing required argument "[{name}]"')

    def exclude(self, used: str, others: Collection[str]) -> None:
        """None of `others` may stand beside `used`."""
        if used not in self._given:
            return
        for other in self.given(others):
            self.usage(f'Option "[{used}]" can\'t be used with option "[{other}]"')

    def usage(self, message: str) -> NoReturn:
        """A mistake in how the options go together: say it, list them, exit 1."""
        say(message, to=sys.stderr)
        say_text(self.help(), to=sys.stderr)
        raise SystemExit(1)

    def fail(self, message: str) -> NoReturn:
        """A mistake in one option: Kafka shows a stack trace here, we show the message of it."""
        say(message, to=sys.stderr)
        raise SystemExit(1)

    def warn(self, message: str) -> None:
        """Something that is not as it should be, and does not end the work."""
        say(message, to=sys.stderr)

    def help(self) -> str:
        """The list of options, as Kafka's tools print it."""
        left = [
            f"--{o.name} <{o.value}>" if o.value else f"--{o.name}" for o in self._known.values()
        ]
        width = max(map(len, left))
        lines = [f"{'Option':{width}}  Description", f"{'------':{width}}  -----------"]
        lines += [
            f"{text:{width}}  {option.help}"
            for text, option in zip(left, self._known.values(), strict=True)
        ]
        return "\n".join([f"klamm {self._tool}", *lines])
