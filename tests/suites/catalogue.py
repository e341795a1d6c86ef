"""Suites and explanations, as the files beside this one state them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
_REGISTRIES: Final = ("go", "pypi", "checkout")


class Unusable(Exception):
    """A suite or an explanation is not what it has to be; the text says what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """One foreign suite: where it comes from, what it needs, how it is run."""

    name: str
    registry: str  # go, pypi, or checkout for one that no registry carries
    package: str
    version: str
    runner: str  # go or pytest
    run: tuple[str, ...]  # the packages or files to run, and flags
    brokers: int = 3
    settings: Mapping[str, str] = field(default_factory=dict)
    host: str = "127.0.0.1"
    racks: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    rewrite: Mapping[str, str] = field(default_factory=dict)  # texts that name a fixed address
    client: str = ""  # the client's name in PyPI, where the package is another thing
    requires: tuple[str, ...] = ()  # packages that the suite needs beside its own
    keep: tuple[str, ...] = ()  # files in which nothing is rewritten
    # With listeners, brokers run from a server.properties; in its values {place} has certificates.
    listeners: tuple[str, ...] = ()
    first_id: int = 0
    users: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # SCRAM: passwords
    overlay: Mapping[str, str] = field(default_factory=dict)  # files of ours, put after theirs
    within_s: int = 600


@dataclass(frozen=True, slots=True)
class Explanation:
    """A reason why tests fail here, or are not run at all."""

    tests: tuple[str, ...]  # patterns as of a shell
    why: str
    run: bool = True

    def covers(self, test: str) -> bool:
        """Whether a test is one of these; a test within a test counts with it."""
        return any(fnmatchcase(test, each) or test.startswith(f"{each}/") for each in self.tests)


def suites(text: str) -> dict[str, Suite]:
    """All suites of a catalogue by their names, in its order."""
    return {name: _suite(name, entry) for name, entry in tomllib.loads(text).items()}


def _suite(name: str, entry: Mapping[str, Any]) -> Suite:
    given = dict(entry)
    for key in ("run", "requires", "keep", "listeners"):
        given[key] = tuple(given.get(key, ()))
    try:
        suite = Suite(name=name, **given)
    except TypeError as fault:
        raise Unusable(f"suites.toml: [{name}] is not understood: {fault}") from fault
    if suite.registry not in _REGISTRIES or suite.runner not in ("go", "pytest"):
        raise Unusable(f"suites.toml: [{name}] names an unknown registry or runner")
    return suite


def explanations(text: str) -> tuple[Explanation, ...]:
    """The explanations of one suite; each names its tests and has a reason."""
    found = []
    for entry in tomllib.loads(text).get("explained", ()):
        tests = tuple(entry.get("tests", ()))
        why = str(entry.get("why", "")).strip()
        if not tests or not why or not set(entry) <= {"tests", "why", "run"}:
            raise Unusable(f"an explanation needs tests and a why, and may have run: {entry}")
        found.append(Explanation(tests, why, bool(entry.get("run", True))))
    return tuple(found)


def read_suites(names: Sequence[str]) -> list[Suite]:
    """The suites of these names, or all."""
    known = suites((HERE / "suites.toml").read_text())
    strangers = [name for name in names if name not in known]
    if strangers:
        raise Unusable(f"No suite is called {', '.join(strangers)}. There are: {', '.join(known)}.")
    return [known[name] for name in names or known]


def read_explanations(name: str) -> tuple[Explanation, ...]:
    """What is known about the failures of one suite."""
    file = HERE / "explained" / f"{name}.toml"
    return explanations(file.read_text()) if file.exists() else ()
