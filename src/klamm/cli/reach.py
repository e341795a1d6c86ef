"""Finds the cluster for a command: the brokers to connect to and the client's properties.

Every command that takes `--bootstrap-server` takes `--command-config` as well. What a command gets
as its bootstrap servers is a `Reach`, which knows both.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Final, get_type_hints

import typer

from klamm.cli import profiles
from klamm.client import settings

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
        return settings.read(self.sources) if self.sources else None

    def connection(self, *, patience_s: float) -> ConnectionOptions:
        """The same for a blocking client."""
        found = settings.parse_connection(self.servers, settings.gathered(self.sources))
        return replace(found, patience_ms=int(patience_s * 1000))


def reach_of(given: str | Reach) -> Reach:
    """A reach without properties, unless it is one already."""
    return given if isinstance(given, Reach) else Reach(given)


BootstrapOption = Annotated[
    Reach,
    typer.Option(
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
    typer.Option(
        "--command-config",
        "-X",
        metavar="FILE|NAME=VALUE",
        help="properties of a Kafka client, such as security.protocol and what belongs to TLS and "
        "SASL: a file of them, or one; repeatable, after the file in KLAMM_COMMAND_CONFIG",
    ),
]
# All that `klamm up` listens on if nothing else is said: any of them may be down.
DEFAULT_BOOTSTRAP: Final = Reach("127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094")


class App(typer.Typer):
    """A Typer app whose commands take the properties of a client where they take an address."""

    def command(self, *args: Any, **kwargs: Any) -> Callable[[Callable[..., Any]], Any]:
        register = super().command(*args, **kwargs)

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            register(_with_properties(function))
            return function

        return decorate


def _with_properties(function: Callable[..., Any]) -> Callable[..., Any]:
    """The command with one option more, whose value goes into that of `--bootstrap-server`."""
    signature = inspect.signature(function)
    if _SERVERS not in signature.parameters:
        return function

    @functools.wraps(function)
    def command(**given: Any) -> Any:
        first = os.environ.get(_VARIABLE)
        sources = (*([first] if first else []), *(given.pop(_SOURCES) or ()))
        servers = given[_SERVERS].servers
        if given[_SERVERS] is DEFAULT_BOOTSTRAP:
            # Nobody named a cluster, but a file that was made for one may, or a profile.
            named = settings.gathered(sources).get("bootstrap.servers")
            profile = None if named else profiles.in_use()
            if profile is not None:
                servers, sources = profile.bootstrap_server, (*profile.command_config, *sources)
            servers = named or servers
        given[_SERVERS] = Reach(servers, sources)
        return function(**given)

    hints = get_type_hints(function, include_extras=True) | {_SOURCES: ClientOption}
    option = inspect.Parameter(
        _SOURCES, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ClientOption
    )
    parameters = [
        parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in signature.parameters.items()
    ]
    command.__annotations__ = hints
    command.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*parameters, option]
    )
    return command
