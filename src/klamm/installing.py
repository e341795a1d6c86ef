"""Tells how to install more of klamm, from wherever this klamm was installed.

A hint has to work where it is read: for this Python, which may be in an environment that is not
activated, and from the checkout or the wheel that klamm itself came from.
"""

from __future__ import annotations

import json
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from urllib.parse import unquote, urlsplit


def install_command(*extras: str, more: str = "") -> str:
    """The command line that adds these extras, such as `spark`, to this installation."""
    return f"{shlex.quote(sys.executable)} -m pip install {more}{_target(extras)}"


def _target(extras: tuple[str, ...]) -> str:
    """The thing pip is given: the checkout, the wheel, or the name where neither is known."""
    chosen = f"[{','.join(extras)}]" if extras else ""
    origin = _origin()
    place = urlsplit(str(origin.get("url", "")))
    if place.scheme != "file":
        return shlex.quote(f"klamm{chosen}")
    path = unquote(place.path)
    if "dir_info" not in origin:
        return shlex.quote(f"klamm{chosen} @ {place.geturl()}")
    is_editable = bool(origin["dir_info"].get("editable"))
    return ("-e " if is_editable else "") + shlex.quote(path + chosen)


def _origin() -> dict[str, dict[str, bool]]:
    try:
        found = json.loads(distribution("klamm").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
