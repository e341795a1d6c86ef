"""Foreign programs and where they are kept.

Packages go into a directory of the user's cache, once for every version, and are complete or
absent: they are fetched next to their place and then renamed. A tool that is not there, or packages
that cannot be fetched, skip the test with the reason; a program that runs and fails, fails it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "klamm" / "interop"
FETCH_TIMEOUT = 400
RUN_TIMEOUT = 240


def tool(name: str) -> str:
    """The program of this name; the test is skipped where there is none."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} on this machine")
    return found


def cached(name: str, fetch: Callable[[Path], Sequence[str]]) -> Path:
    """The directory `name` of the cache; the command of `fetch` fills it the first time."""
    place = CACHE / name
    if place.is_dir():
        return place
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix=f".{name}-") as directory:
        half = Path(directory) / "packages"
        half.mkdir()
        try_to_fetch(name, fetch(half))
        half.rename(place)
    return place


def try_to_fetch(name: str, command: Sequence[str], cwd: Path | None = None) -> None:
    """Run a package manager; the test is skipped with its last words when it cannot."""
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=FETCH_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{name} did not arrive within {FETCH_TIMEOUT} s")
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        pytest.skip(f"{name} cannot be fetched: {words[-1]}")


def run(
    command: Sequence[str],
    *,
    stdin: str = "",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    with_stderr: bool = False,
) -> str:
    """What a program writes to stdout; it has to end well."""
    done = subprocess.run(
        command,
        input=stdin,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, f"{command[-8:]}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    return done.stdout + done.stderr if with_stderr else done.stdout
