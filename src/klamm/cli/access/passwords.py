"""Passwords for commands: from a file, from a pipe or a prompt, or drawn; never from an argument.

What stands on a command line is in the list of processes and in the shell's history.
"""

from __future__ import annotations

import getpass
import secrets
import sys
from pathlib import Path
from typing import Final

from klamm.model.errors import UsageError

_SIZE_MAX: Final = 1024


def password_from(file: Path | None, *, draws: bool) -> tuple[str, bool]:
    """The password to set, and whether it was drawn here."""
    if draws and file is not None:
        raise UsageError("--generate and --password-file cannot be used together")
    if draws:
        return secrets.token_urlsafe(24), True
    if file is not None and str(file) != "-":
        return _checked(_read(file)), False
    if file is None and sys.stdin.isatty():
        first = getpass.getpass("password: ")
        if getpass.getpass("the same again: ") != first:
            raise UsageError("these were two passwords: nothing was changed")
        return _checked(first), False
    return _checked(sys.stdin.readline(_SIZE_MAX + 2).rstrip("\n")), False


def _read(file: Path) -> str:
    try:
        with file.open(encoding="utf-8") as opened:
            return opened.readline(_SIZE_MAX + 2).rstrip("\n")
    except (OSError, UnicodeDecodeError) as fault:
        raise UsageError(f"--password-file: {file} cannot be read: {fault}") from None


def _checked(text: str) -> str:
    if not text:
        raise UsageError(
            "no password came: type one, pipe one in, or use --password-file or --generate"
        )
    if len(text) > _SIZE_MAX or not text.isprintable():
        raise UsageError(f"a password is one line of at most {_SIZE_MAX} printable characters")
    return text
