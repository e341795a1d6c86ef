"""What the commands share: how an app is made, and the options that mean the same everywhere."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Output(StrEnum):
    """The shape of what a command prints."""

    TEXT = "text"
    JSON = "json"


def new_app(summary: str) -> typer.Typer:
    """A Typer app without what makes it slow: rich help, completion, decorated tracebacks."""
    return typer.Typer(
        help=summary,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )


BootstrapOption = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        envvar="KLAMM_BOOTSTRAP_SERVER",
        metavar="HOST:PORT,...",
        help="brokers to ask first",
    ),
]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="text, or one JSON value")]
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
