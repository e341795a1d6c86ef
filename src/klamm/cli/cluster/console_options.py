"""The options of `klamm console`, and what is made of them."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from klamm.cli.parsing.declared import Option
from klamm.cli.reach import Reach
from klamm.model.errors import UsageError

if TYPE_CHECKING:
    from klamm.console.access.oidc import OidcOptions
    from klamm.console.access.roles import Role
    from klamm.console.showing.masks import Masks
    from klamm.console.showing.rendering import Decode

_ALIAS: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,49}")
_SECRET_MAX: Final = 4_096

RoleOption = Annotated[
    list[str] | None,
    Option(
        "--role",
        metavar="USER=ROLE",
        help="the role of a user of a secured cluster: viewer, operator or admin; repeatable",
    ),
]
UsersOption = Annotated[
    Path | None,
    Option(metavar="FILE", help="who may sign in where the cluster is open: name:role:password"),
]
ProcessesOption = Annotated[
    Path | None,
    Option(
        "--data",
        metavar="DIR",
        help="the data directory of the cluster, if it runs on this machine: gives the buttons to "
        "kill, stop, start and pause brokers",
    ),
]
JobsOption = Annotated[
    Path | None,
    Option(
        metavar="DIR", help="the directory of archives, reports and journals: lets jobs be started"
    ),
]
MastersOption = Annotated[
    list[str] | None,
    Option("--spark-master", metavar="URL", help="a Spark that jobs may run on; repeatable"),
]
ClustersOption = Annotated[
    list[str] | None,
    Option(
        "--cluster",
        metavar="NAME=HOST:PORT,...",
        help="another cluster, shown under /@NAME; repeatable",
    ),
]
ClusterConfigsOption = Annotated[
    list[str] | None,
    Option(
        "--cluster-config",
        metavar="NAME=FILE",
        help="the properties of a client for it; repeatable",
    ),
]
IssuerOption = Annotated[
    str | None,
    Option(metavar="URL", help="let people sign in by this provider of OpenID Connect"),
]
ClientIdOption = Annotated[
    str, Option(metavar="ID", help="the name of this console at the provider")
]
ClientSecretOption = Annotated[
    Path | None, Option(metavar="FILE", help="its secret there, if it has one")
]
ClaimRolesOption = Annotated[
    list[str] | None,
    Option(
        "--oidc-role",
        metavar="VALUE=ROLE",
        help="the role of those whose claim has this value; repeatable",
    ),
]
RoleClaimOption = Annotated[
    str, Option(metavar="NAME", help="the claim, such as realm_access.roles")
]
UserClaimOption = Annotated[str, Option(metavar="NAME", help="the claim that has a person's name")]


RegistryOption = Annotated[
    str | None,
    Option(metavar="URL|DIR", help="a schema registry, or a directory of schemas, for Avro values"),
]


MasksOption = Annotated[
    list[str] | None,
    Option(
        "--mask",
        metavar="TOPIC=PART",
        help="a part of records that nobody sees: key, value, headers or a path such as "
        "$.card.number; the topic may have * in it; repeatable",
    ),
]


def masks_of(texts: Iterable[str]) -> Masks:
    """The parts of records that nobody sees."""
    from klamm.console.showing.masks import masks

    try:
        return masks(texts)
    except ValueError as fault:
        raise UsageError(f"--mask {fault}") from None


def decoder_of(place: str | None) -> Decode | None:
    """Decodes Avro values by the schemas of a registry or a directory."""
    if place is None:
        return None
    from klamm.client.registry.avro import AvroDecoder
    from klamm.client.registry.schemas import SchemaPlace

    is_address = place.startswith(("http://", "https://"))
    where = SchemaPlace(url=place) if is_address else SchemaPlace(directory=place)
    decoder = AvroDecoder(where.opened())
    turn = threading.Lock()

    def decode(data: bytes) -> Any:
        with turn:
            return decoder.decode(data)[1]

    return decode


def roles_of(texts: Iterable[str], option: str) -> dict[str, Role]:
    """Roles by whatever stands before the equals sign."""
    from klamm.console.access.roles import ROLES

    roles = {}
    for text in texts:
        name, _, word = text.rpartition("=")
        if not name or word not in ROLES:
            raise UsageError(
                f"{option} takes NAME=ROLE with one of {', '.join(ROLES)}, not {text!r}"
            )
        roles[name] = ROLES[word]
    return roles


def oidc_of(
    issuer: str | None, client_id: str, secret: Path | None, roles: Iterable[str], claims: list[str]
) -> OidcOptions | None:
    """The provider of OpenID Connect that the options name."""
    if issuer is None:
        if client_id or secret or list(roles):
            raise UsageError("--oidc-client-id, --oidc-role and the like need --oidc-issuer")
        return None
    from klamm.console.access.oidc import OidcOptions

    return OidcOptions(
        issuer=issuer,
        client_id=client_id,
        client_secret=_secret(secret) if secret else None,
        roles=roles_of(roles, "--oidc-role"),
        role_claim=claims[0],
        user_claim=claims[1],
    )


def _secret(path: Path) -> str:
    try:
        if path.stat().st_mode & 0o077:
            raise UsageError(f"others can read {path}; run chmod 600 {path}")
        found = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as fault:
        raise UsageError(f"--oidc-client-secret: {fault}") from fault
    if not found or len(found) > _SECRET_MAX:
        raise UsageError(f"--oidc-client-secret: {path} does not hold a secret")
    return found


def clusters_of(texts: Iterable[str], configs: Iterable[str]) -> dict[str, Reach]:
    """Other clusters by name, and how each is reached."""
    sources: dict[str, tuple[str, ...]] = {}
    for text in configs:
        name, equals, path = text.partition("=")
        if not equals:
            raise UsageError(f"--cluster-config takes NAME=FILE, not {text!r}")
        sources[name] = (*sources.get(name, ()), path)
    found: dict[str, Reach] = {}
    for text in texts:
        name, equals, servers = text.partition("=")
        if not equals or not servers or not _ALIAS.fullmatch(name) or name in ("first", *found):
            raise UsageError(
                f"--cluster takes NAME=HOST:PORT,... with a name of its own, not {text!r}"
            )
        found[name] = Reach(servers, sources.pop(name, ()))
    if sources:
        raise UsageError(f"--cluster-config: there is no --cluster {next(iter(sources))}")
    return found


def words_of(reach: Reach) -> tuple[str, ...]:
    """The options by which another command finds the same cluster."""
    words = ["--bootstrap-server", reach.servers]
    for source in reach.sources:
        is_file = "=" not in source or Path(source).is_file()
        words += ["--command-config", str(Path(source).absolute()) if is_file else source]
    return tuple(words)


class ControlledProcesses:
    """The brokers of a cluster on this machine, through the socket in its data directory."""

    def __init__(self, data: Path) -> None:
        self._data = data

    async def states(self) -> Mapping[int, str]:
        """The state of each broker's process."""
        from klamm.app.control import ask

        found = await ask(self._data, "status")
        return {broker["id"]: broker["state"] for broker in found["brokers"]}

    async def do(self, verb: str, broker: int) -> Mapping[str, Any]:
        """Stop, kill, start, pause or resume one."""
        from klamm.app.control import ask

        return dict(await ask(self._data, verb, broker=broker) or {})
