"""`klamm console`: a web page that shows a cluster's life, and changes it where one may."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from klamm.cli.cluster.console_options import (
    ClaimRolesOption,
    ClientIdOption,
    ClientSecretOption,
    ClusterConfigsOption,
    ClustersOption,
    ControlledProcesses,
    IssuerOption,
    JobsOption,
    MasksOption,
    MastersOption,
    ProcessesOption,
    RegistryOption,
    RoleClaimOption,
    RoleOption,
    UserClaimOption,
    UsersOption,
    clusters_of,
    decoder_of,
    masks_of,
    oidc_of,
    roles_of,
    words_of,
)
from klamm.cli.cluster.running import LogFormatOption, VerboseOption
from klamm.cli.logs import LogFormat, to_stderr
from klamm.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, new_app
from klamm.cli.output import say
from klamm.cli.parsing.declared import Option
from klamm.cli.reach import Reach
from klamm.installing import install_command
from klamm.model.errors import KlammError, UsageError

app = new_app("Show a cluster in a browser.")


@app.command()
def console(
    port: Annotated[int, Option(help="the port to listen on; 0 = a free one")] = 8080,
    host: Annotated[str, Option(help="the address to listen on")] = "127.0.0.1",
    public_url: Annotated[
        str | None, Option(metavar="URL", help="the address by which browsers reach it")
    ] = None,
    read_only: Annotated[
        bool, Option("--read-only", help="nobody can change anything unless they sign in")
    ] = False,
    users: UsersOption = None,
    role: RoleOption = None,
    tls_cert: Annotated[Path | None, Option(metavar="FILE", help="serve over TLS")] = None,
    tls_key: Annotated[Path | None, Option(metavar="FILE", help="the key of it")] = None,
    audit_log: Annotated[
        Path | None, Option(metavar="FILE", help="write down who did what")
    ] = None,
    data: ProcessesOption = None,
    jobs_dir: JobsOption = None,
    spark_master: MastersOption = None,
    cluster: ClustersOption = None,
    cluster_config: ClusterConfigsOption = None,
    registry: RegistryOption = None,
    mask: MasksOption = None,
    oidc_issuer: IssuerOption = None,
    oidc_client_id: ClientIdOption = "",
    oidc_client_secret: ClientSecretOption = None,
    oidc_role: ClaimRolesOption = None,
    oidc_role_claim: RoleClaimOption = "roles",
    oidc_user_claim: UserClaimOption = "preferred_username",
    verbose: VerboseOption = False,
    log_format: LogFormatOption = LogFormat.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Serve the console until Ctrl-C; it listens on this machine only unless told otherwise.

    Example: klamm console --port 8080
    """
    to_stderr(logging.INFO if verbose else logging.WARNING, log_format)
    for path in (tls_cert, tls_key):
        if path is not None and not path.is_file():
            raise UsageError(f"there is no file {path}")
    if (tls_cert is None) != (tls_key is None):
        raise UsageError("--tls-cert and --tls-key belong together")
    serve, made = _needed()
    shared: dict[str, Any] = {
        "host": host,
        "port": port,
        "public_url": public_url,
        "read_only": read_only,
        "users": users,
        "roles": roles_of(role or (), "--role"),
        "tls_cert": tls_cert,
        "tls_key": tls_key,
        "decode": decoder_of(registry),
        "masks": masks_of(mask or ()),
        "spark_masters": tuple(spark_master or ()),
        "oidc": oidc_of(
            oidc_issuer,
            oidc_client_id,
            oidc_client_secret,
            oidc_role or (),
            [oidc_role_claim, oidc_user_claim],
        ),
    }
    others = clusters_of(cluster or (), cluster_config or ())
    options = made(
        bootstrap_server,
        audit_log=audit_log,
        processes=ControlledProcesses(data) if data is not None else None,
        jobs_dir=jobs_dir,
        others=tuple(
            made(reach, alias=name, jobs_dir=jobs_dir / f"@{name}" if jobs_dir else None, **shared)
            for name, reach in others.items()
        ),
        **shared,
    )
    asyncio.run(serve(options, _ready))


def _needed() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The server, and a maker of its options; says what is missing where that is not installed."""
    try:
        from klamm.console.options import Options
        from klamm.console.serving.running import serve
    except ModuleNotFoundError as missing:
        raise KlammError(
            f"the console needs {missing.name}: {install_command('console')}"
        ) from None

    def made(reach: Reach, **more: Any) -> Options:
        return Options(
            servers=reach.servers, settings=reach.settings, reach=words_of(reach), **more
        )

    return serve, made


def _ready(url: str) -> None:
    say(f"ready console={url}")
    sys.stdout.flush()
