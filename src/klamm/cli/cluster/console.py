"""`klamm console`: a web page that shows a cluster's life, and changes it where one may."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from klamm.cli.cluster.running import LogFormatOption, VerboseOption
from klamm.cli.logs import LogFormat, to_stderr
from klamm.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, new_app
from klamm.cli.output import say
from klamm.installing import install_command
from klamm.model.errors import KlammError, UsageError

app = new_app("Show a cluster in a browser.")

_Role = Annotated[
    list[str] | None,
    typer.Option(
        "--role",
        metavar="USER=ROLE",
        help="the role of a user of a secured cluster: viewer, operator or admin; repeatable",
    ),
]


@app.command()
def console(
    port: Annotated[int, typer.Option(help="the port to listen on; 0 = a free one")] = 8080,
    host: Annotated[str, typer.Option(help="the address to listen on")] = "127.0.0.1",
    public_url: Annotated[
        str | None, typer.Option(metavar="URL", help="the address by which browsers reach it")
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="nobody can change anything unless they sign in")
    ] = False,
    users: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="who may sign in where the cluster is open: name:role:password"
        ),
    ] = None,
    role: _Role = None,
    tls_cert: Annotated[Path | None, typer.Option(metavar="FILE", help="serve over TLS")] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="the key of it")] = None,
    audit_log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write down who did what")
    ] = None,
    verbose: VerboseOption = False,
    log_format: LogFormatOption = LogFormat.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Serve the console until Ctrl-C; it listens on this machine only unless told otherwise.

    Example: klamm console --port 8080
    """
    try:
        from klamm.console.gate import ROLES
        from klamm.console.options import Options
        from klamm.console.serving import serve
    except ModuleNotFoundError as missing:
        raise KlammError(
            f"the console needs {missing.name}: {install_command('console')}"
        ) from None
    to_stderr(logging.INFO if verbose else logging.WARNING, log_format)
    roles = {}
    for text in role or ():
        name, _, word = text.rpartition("=")
        if not name or word not in ROLES:
            raise UsageError(f"--role takes USER=ROLE with one of {', '.join(ROLES)}, not {text!r}")
        roles[name] = ROLES[word]
    for path in (tls_cert, tls_key):
        if path is not None and not path.is_file():
            raise UsageError(f"there is no file {path}")
    options = Options(
        servers=bootstrap_server.servers,
        settings=bootstrap_server.settings,
        host=host,
        port=port,
        public_url=public_url,
        read_only=read_only,
        users=users,
        roles=roles,
        tls_cert=tls_cert,
        tls_key=tls_key,
        audit_log=audit_log,
    )
    asyncio.run(serve(options, _ready))


def _ready(url: str) -> None:
    say(f"ready console={url}")
    sys.stdout.flush()
