"""`klamm kafka-delegation-tokens`: flags, output and exit codes of Kafka's tool of that name."""

from __future__ import annotations

import base64
import binascii
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from klamm.cli.asking import bare, run
from klamm.cli.kafka.options import Options, ToolOption
from klamm.cli.output import say
from klamm.client import settings as client_settings
from klamm.client.aio import delegation_tokens as tokens
from klamm.client.aio.admin import Admin
from klamm.client.aio.delegation_tokens import DelegationToken
from klamm.model.errors import KlammError, Refused, UsageError
from klamm.security.principals import Principal, parse_principal
from klamm.version import __version__

OPTIONS: Final = (
    ToolOption("bootstrap-server", "server to connect to", "REQUIRED: the brokers to connect to."),
    ToolOption("command-config", "file", "REQUIRED: properties for the admin client."),
    ToolOption("create", "", "Create a token."),
    ToolOption("describe", "", "Describe tokens: of these owners, or all that may be seen."),
    ToolOption("expire", "", "End a token."),
    ToolOption("expiry-time-period", "ms", "When it ends; -1: at once."),
    ToolOption("help", "", "Print usage information."),
    ToolOption("hmac", "base64", "The HMAC of the token."),
    ToolOption("max-life-time-period", "ms", "How long it can live at most; -1: by the brokers."),
    ToolOption("owner-principal", "type:name", "The owner. Repeatable."),
    ToolOption("renew", "", "Let a token live longer."),
    ToolOption("renew-time-period", "ms", "For how long; -1: by the brokers."),
    ToolOption("renewer-principal", "type:name", "Somebody who may renew it. Repeatable."),
    ToolOption("version", "", "Display Kafka version."),
)
_ABOUT: Final = "This tool helps to create, renew, expire, or describe delegation tokens."
_NEEDS: Final = {
    "create": ("max-life-time-period",),
    "renew": ("hmac", "renew-time-period"),
    "expire": ("hmac", "expiry-time-period"),
    "describe": (),
}
_EXCLUDES: Final = {
    "create": ("hmac", "renew-time-period", "expiry-time-period"),
    "renew": ("renewer-principal", "max-life-time-period", "expiry-time-period", "owner-principal"),
    "expire": ("renewer-principal", "max-life-time-period", "renew-time-period", "owner-principal"),
    "describe": (
        "hmac", "renewer-principal", "max-life-time-period", "renew-time-period",
        "expiry-time-period",
    ),
}  # fmt: skip
_LONG_MAX: Final = (1 << 63) - 1
_TITLES: Final = (
    "TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE",
)  # fmt: skip
_ROW: Final = "{:<15} {:<30} {:<15} {:<15} {:<25} {:<15} {:<15} {:<15}"


def parse(args: Sequence[str]) -> tuple[Options, str]:
    """The options of a command line that makes sense, and what is to be done."""
    options = Options("kafka-delegation-tokens", OPTIONS)
    if not args:
        options.usage(_ABOUT)
    options.parse(args)
    if "help" in options:
        options.usage(_ABOUT)
    if "version" in options:
        say(f"3.9.0 (klamm {__version__})")
        raise SystemExit(0)
    actions = options.given(tuple(_NEEDS))
    if len(actions) != 1:
        options.usage(
            "Command must include exactly one action: --create, --renew, --expire or --describe"
        )
    (action,) = actions
    options.require("bootstrap-server", "command-config", *_NEEDS[action])
    options.exclude(action, _EXCLUDES[action])
    return options, action


def app(*, args: Sequence[str], prog_name: str) -> None:
    """One run of the tool."""
    options, action = parse(args)
    try:
        settings = client_settings.read(options.one("command-config"))
        bootstrap = options.one("bootstrap-server") or ""
        run(bootstrap, lambda admin: _DO[action](admin, options), settings)
    except (KlammError, UsageError, OSError) as error:
        say(f"Error while executing delegation token command : {bare(error)}", to=sys.stderr)
        raise SystemExit(1) from None


async def _create(admin: Admin, options: Options) -> None:
    life_ms = _period(options, "max-life-time-period")
    renewers = _principals(options, "renewer-principal")
    owners = _principals(options, "owner-principal")
    named = ", ".join(map(str, renewers))
    say(
        f"Calling create token operation with renewers :[{named}] , max-life-time-period :{life_ms}"
    )
    owner = owners[0] if owners else None
    made = await tokens.create(admin.client, owner=owner, renewers=renewers, life_ms=life_ms)
    say(f"Created delegation token with tokenId : {made.id}", "")
    _print([made])


async def _renew(admin: Admin, options: Options) -> None:
    hmac, period_ms = _hmac(options), _period(options, "renew-time-period")
    say(f"Calling renew token operation with hmac :[hidden] , renew-time-period :{period_ms}")
    ends = await tokens.renew(admin.client, hmac, period_ms)
    say(f"Completed renew operation. New expiry date : {_date(ends)}")


async def _expire(admin: Admin, options: Options) -> None:
    hmac, period_ms = _hmac(options), _period(options, "expiry-time-period")
    say(f"Calling expire token operation with hmac :[hidden] , expire-time-period :{period_ms}")
    ends = await tokens.expire(admin.client, hmac, period_ms)
    say(f"Completed expire operation. New expiry date : {_date(ends)}")


async def _describe(admin: Admin, options: Options) -> None:
    owners = _principals(options, "owner-principal")
    if owners:
        named = ", ".join(map(str, owners))
        say(f"Calling describe token operation for owners: [{named}]")
    else:
        say("Calling describe token operation for current user.")
    found = await tokens.describe(admin.client, owners or None)
    say(f"Total number of tokens : {len(found)}")
    _print(found)


_DO: Final = {"create": _create, "renew": _renew, "expire": _expire, "describe": _describe}


def _period(options: Options, name: str) -> int:
    text = options.one(name) or ""
    if not text.removeprefix("-").isdecimal() or abs(int(text[:21])) > _LONG_MAX:
        raise UsageError(f"Cannot parse argument '{text}' of option {name}")
    return int(text)


def _principals(options: Options, name: str) -> list[Principal]:
    found = []
    for text in options.all(name):
        principal = parse_principal(text.strip())
        if isinstance(principal, Refused):
            raise UsageError(principal.why)
        found.append(principal)
    return found


def _hmac(options: Options) -> bytes:
    try:
        return base64.b64decode(options.one("hmac") or "", validate=True)
    except (binascii.Error, ValueError):
        raise UsageError("--hmac is no base64: copy it from the table of --describe") from None


def _print(found: Sequence[DelegationToken]) -> None:
    say(_ROW.format(*_TITLES))
    for token in found:
        renewers = ", ".join(map(str, token.renewers))
        times = (_date(at) for at in (token.issued_ms, token.expires_ms, token.ends_ms))
        hmac = base64.b64encode(token.hmac).decode()
        cells = (token.id, hmac, str(token.owner), str(token.requester), f"[{renewers}]", *times)
        say("", _ROW.format(*cells))


def _date(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000).strftime("%Y-%m-%dT%H:%M")  # noqa: DTZ006 - local, as Kafka's
