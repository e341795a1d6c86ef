"""`klamm users`: who can sign in by SCRAM. Passwords are hashed here and never sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated

from klamm.cli.access.passwords import password_from
from klamm.cli.asking import run
from klamm.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    Output,
    OutputOption,
    Reach,
    new_app,
)
from klamm.cli.output import print_json, say_text, table, tell
from klamm.cli.parsing.declared import Option
from klamm.client.aio import users
from klamm.client.aio.admin import Admin
from klamm.client.aio.users import UserCredentials
from klamm.client.errors import refuse
from klamm.model.errors import ErrorCode, NotThere, UsageError
from klamm.model.scram import ROUNDS_MIN, ScramMechanism
from klamm.security.credentials.scram import ROUNDS_MAX

app = new_app("List, add and remove users, and change their passwords.")

MechanismOption = Annotated[
    list[ScramMechanism] | None,
    Option("--mechanism", help="only this one; repeatable [both]"),
]
FileOption = Annotated[
    Path | None,
    Option("--password-file", help="take the password from this file; -: standard input"),
]
GenerateOption = Annotated[bool, Option("--generate", help="draw a password, and print it")]
RoundsOption = Annotated[int, Option("--iterations", help="how slow guessing is made")]


@app.command("list")
def list_(
    output: OutputOption = Output.TEXT, bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP
) -> None:
    """List the users that can sign in by SCRAM.

    Example: klamm users list
    """
    found = run(bootstrap_server, lambda admin: users.describe(admin.client))
    if output is Output.JSON:
        print_json(
            [
                {
                    "user": one.user,
                    "mechanisms": {name.value: count for name, count in one.rounds.items()},
                }
                for one in found
            ]
        )
    elif found:
        rows = [(one.user, _mechanisms(one)) for one in found]
        say_text(table(("user", "mechanisms"), rows))


@app.command()
def add(
    user: str,
    mechanism: MechanismOption = None,
    password_file: FileOption = None,
    generate: GenerateOption = False,
    iterations: RoundsOption = users.ROUNDS,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Add a user; the password is asked for, or read from a file or a pipe.

    Example: klamm users add alice --generate
    """

    async def refuse_known(admin: Admin) -> None:
        if (await _look_at(admin, user)).rounds:
            raise UsageError(
                f"{user} is there already: klamm users password {user} changes the password"
            )

    drawn = _set(
        user, mechanism, password_file, generate, iterations, bootstrap_server, refuse_known
    )
    _tell(output, user, drawn, f"added {user}")


@app.command()
def password(
    user: str,
    mechanism: MechanismOption = None,
    password_file: FileOption = None,
    generate: GenerateOption = False,
    iterations: RoundsOption = users.ROUNDS,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Change a user's password; logins from now on need the new one.

    Example: klamm users password alice
    """

    async def refuse_unknown(admin: Admin) -> None:
        if not (await _look_at(admin, user)).rounds:
            raise NotThere(f"there is no user {user!r}: klamm users add {user} makes one")

    drawn = _set(
        user, mechanism, password_file, generate, iterations, bootstrap_server, refuse_unknown
    )
    _tell(output, user, drawn, f"changed the password of {user}")


@app.command()
def remove(
    user: str,
    mechanism: MechanismOption = None,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Remove a user, or its credentials for one mechanism; what it may do stays in the ACLs.

    Example: klamm users remove alice
    """

    async def work(admin: Admin) -> None:
        held = (await _look_at(admin, user)).rounds
        gone = [one for one in (mechanism or tuple(held)) if one in held]
        if not gone:
            raise NotThere(f"there is no user {user!r} with such credentials")
        await users.remove(admin.client, user, gone)

    run(bootstrap_server, work)
    tell(output, {"user": user}, f"removed {user}")


def _tell(output: Output, user: str, drawn: str | None, line: str) -> None:
    if drawn is None:
        tell(output, {"user": user}, line)
    else:
        tell(output, {"user": user, "password": drawn}, f"password: {drawn}", line)


def _set(
    user: str,
    mechanism: Sequence[ScramMechanism] | None,
    file: Path | None,
    generate: bool,
    iterations: int,
    reach: Reach,
    check: Callable[[Admin], Awaitable[None]],
) -> str | None:
    """Sets the password after a look at who is there; returns it where it was drawn."""
    if not ROUNDS_MIN <= iterations <= ROUNDS_MAX:
        raise UsageError(f"--iterations is between {ROUNDS_MIN} and {ROUNDS_MAX}")
    if not user:
        raise UsageError("name the user")
    text, is_drawn = password_from(file, draws=generate)
    chosen = tuple(mechanism or ScramMechanism)

    async def work(admin: Admin) -> None:
        await check(admin)
        await users.set_password(admin.client, user, text, chosen, rounds=iterations)

    run(reach, work)
    return text if is_drawn else None


async def _look_at(admin: Admin, user: str) -> UserCredentials:
    (found,) = await users.describe(admin.client, [user])
    if found.error is not ErrorCode.RESOURCE_NOT_FOUND:
        refuse(found.error, user, found.message)
    return found


def _mechanisms(one: UserCredentials) -> str:
    return ", ".join(f"{mechanism} ({rounds} rounds)" for mechanism, rounds in one.rounds.items())
