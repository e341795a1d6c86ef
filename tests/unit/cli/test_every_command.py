"""The commands have one face: an example in the help, and JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import pytest

from klamm.cli.__main__ import COMMANDS
from klamm.cli.parsing.app import App, Command

# They run until they are stopped, or talk to a person: there is no value to print.
WITHOUT_JSON = {
    "up",
    "broker",
    "console",
    "completion",
    "spark shell",
    "spark serve",
    "spark offsets-from-checkpoint",
}


def commands() -> Iterator[tuple[str, Command]]:
    for name, command in COMMANDS.items():
        loaded = import_module(f"klamm.cli.{command.module}")
        # A drop-in has none, but the face of the tool that it replaces; `archive` has two.
        for app in filter(lambda made: isinstance(made, App), vars(loaded).values()):
            for verb, leaf in app.commands.items():
                yield (name if app.alone else f"{name} {verb}"), leaf


EVERY = dict(commands())


@pytest.mark.parametrize("name", EVERY)
def test_help_has_an_example_that_begins_with_the_command(name: str) -> None:
    text = " ".join((EVERY[name].help or "").split())
    _, found, example = text.partition("Example: ")
    assert found, f"klamm {name} --help shows no example"
    assert f"klamm {name}" in example


@pytest.mark.parametrize("name", sorted(EVERY.keys() - WITHOUT_JSON))
def test_output_may_be_json(name: str) -> None:
    options = {option for param in EVERY[name].params for option in param.flags}
    assert {"--output", "-o"} <= options
