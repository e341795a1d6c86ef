"""Tells how this klamm is typed in the shell it was started from."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path


def this_command() -> str:
    """`klamm` where that is on the path, the way to it where not."""
    beside = Path(sys.executable).with_name("klamm")
    if shutil.which("klamm") == str(beside):
        return "klamm"
    if not beside.exists():
        return f"{shlex.quote(sys.executable)} -m klamm"
    near = os.path.relpath(beside)
    # Without a slash the shell would look on its path.
    is_short = os.sep in near and not near.startswith("..")
    return shlex.quote(near if is_short else str(beside))
