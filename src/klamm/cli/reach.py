"""Finds the cluster for a command: the brokers to connect to and the client's properties.

Every command that takes `--bootstrap-server` takes `--command-config` as well. What a command gets
as its bootstrap servers is a `Reach`, which knows both.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final

from klamm.cli import profiles
from klamm.cli.parsing import app as parsing
from klamm.cli.parsing.app import Command
from klamm.cli.parsing.declared import Option, Param, parameter_of, parameters

if TYPE_CHECKING:
    from klamm.client.settings import ClientSettings, ConnectionOptions

_SERVERS: Final = "bootstrap_server"
_SOURCES: Final = "command_config"
_VARIABLE: Final = "KLAMM_COMMAND_CONFIG"


@dataclass(frozen=True, slots=True)
class Reach:
    """The address of a cluster, and where the properties of a client are read from."""

    servers: str
    sources: tuple[str, ...] = ()  # files, or name=value

    def __str__(self) -> str:
        return self.servers

    @property
    def settings(self) -> ClientSettings | None:
        """The client settings that the properties ask for; None if there are none."""
        from klamm.client import settings

        return settings.read(self.sources) if self.sources else None

    def connection(self, *, patience_s: float) -> ConnectionOptions:
        """The same for a blocking client."""
        from klamm.client import settings

        found = settings.parse_connection(self.servers, settings.gathered(self.sources))
        return replace(found, patience_ms=int(patience_s * 1000))


def reach_of(given: str | Reach) -> Reach:
    """A reach without properties, unless it is one already."""
    return given if isinstance(given, Reach) else Reach(given)


BootstrapOption = Annotated[
    Reach,
    Option(
        "--bootstrap-server",
        "-b",
        envvar="KLAMM_BOOTSTRAP_SERVER",
        metavar="HOST:PORT,...",
        help="the brokers to connect to",
        parser=reach_of,
    ),
]
ClientOption = Annotated[
    list[str] | None,
    Option(
        "--command-config",
        "-X",
        metavar="FILE|NAME=VALUE",
        help="properties of a Kafka client, such as security.protocol and what belongs to TLS and "
        "SASL: a file of them, or one; repeatable, after the file in KLAMM_COMMAND_CONFIG",
    ),
]
# All that `klamm up` listens on if nothing else is said: any of them may be down.
DEFAULT_BOOTSTRAP: Final = Reach("127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094")


class _Reaching(Command):
    """A command that takes the properties of a client where it takes an address."""

    @cached_property
    def params(self) -> tuple[Param, ...]:
        own = tuple(parameters(self.function))
        if not any(param.name == _SERVERS for param in own):
            return own
        return (*own, parameter_of(_SOURCES, ClientOption, None))

    def call(self, values: dict[str, Any]) -> None:
        if _SERVERS in values:
            values[_SERVERS] = _found(values[_SERVERS], values.pop(_SOURCES) or ())
        super().call(values)


class ReachingApp(parsing.App):
    """The commands of one word after `klamm`."""

    _command = _Reaching


def _found(given: Reach, sources: Iterable[str]) -> Reach:
    """The cluster that is meant, with the properties of the environment and of a profile."""
    from klamm.client import settings

    first = os.environ.get(_VARIABLE)
    sources = (*([first] if first else []), *sources)
    if given is not DEFAULT_BOOTSTRAP:
        return Reach(given.servers, sources)
    # Nobody named a cluster, but a file that was made for one may, or a profile.
    named = settings.gathered(sources).get("bootstrap.servers") if sources else None
    profile = None if named else profiles.in_use()
    if profile is not None:
        return Reach(profile.bootstrap_server, (*profile.command_config, *sources))
    return Reach(named or given.servers, sources)
