"""Fetching of suites into the user's cache, by the tools of their registries.

A package is there whole or not at all. What is run is a copy, in which fixed addresses have been
replaced; the package itself stays as it came.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from suites.catalogue import HERE, Suite

CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "klamm" / "suites"
_FETCH_TIMEOUT: Final = 900


class Absent(Exception):
    """A suite cannot be had; the text says why."""


def fetch(suite: Suite) -> Path:
    """The suite as it was published."""
    match suite.registry:
        case "go":
            return _from_go(suite)
        case "pypi":
            return _from_pypi(suite)
        case _:
            return _from_checkout(suite)


def _from_go(suite: Suite) -> Path:
    said = command([tool("go"), "mod", "download", "-json", f"{suite.package}@{suite.version}"])
    return Path(json.loads(said)["Dir"])


def _from_pypi(suite: Suite) -> Path:
    """The source distribution, unpacked."""
    place = CACHE / f"{suite.name}-{suite.version}"
    if not place.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE, prefix=".half-") as directory:
            wish = ["--no-deps", "--no-binary", ":all:", f"{suite.package}=={suite.version}"]
            command([sys.executable, "-m", "pip", "download", "-q", "-d", directory, *wish])
            (archive,) = Path(directory).glob("*.tar.gz")
            with tarfile.open(archive) as packed:
                packed.extractall(directory, filter="data")
            (whole,) = (each for each in Path(directory).iterdir() if each.is_dir())
            whole.rename(place)
    return place


def _from_checkout(suite: Suite) -> Path:
    """A checkout that somebody put into the cache, for suites that no registry carries."""
    place = CACHE / "checkouts" / suite.name
    if not place.is_dir():
        raise Absent(
            f"no registry carries its tests; put a checkout of {suite.package} at {suite.version} "
            f"to klamm/suites/checkouts/{suite.name} in your cache directory"
        )
    return place


def copy(suite: Suite, source: Path, to: Path, words: dict[str, str]) -> None:
    """A copy to run, with the addresses of this cluster in it."""
    shutil.copytree(source, to, ignore=shutil.ignore_patterns(".git"))
    for path in (to, *to.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)
    changes = {old: _filled(new, words) for old, new in suite.rewrite.items()}
    if changes:
        for path in (*to.rglob("*_test.go"), *to.rglob("*.py")):
            if path.name not in suite.keep:
                _rewrite(path, changes)
    for ours, theirs in suite.overlay.items():
        (to / theirs).parent.mkdir(parents=True, exist_ok=True)
        with (to / theirs).open("a") as file:
            file.write("\n\n" + (HERE / "overlays" / ours).read_text())


def _filled(text: str, words: dict[str, str]) -> str:
    """A text with the cluster's addresses; braces of its own language stay."""
    for name, value in words.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _rewrite(path: Path, changes: dict[str, str]) -> None:
    before = after = path.read_text()
    for old, new in changes.items():
        after = after.replace(old, new)
    if after != before:
        path.write_text(after)


def environment(suite: Suite) -> Path:
    """A Python environment with the suite's own client and what its tests import."""
    wanted = [f"{suite.client or suite.package}=={suite.version}", *suite.requires]
    mark = hashlib.sha256("\n".join(wanted).encode()).hexdigest()[:8]
    place = CACHE / f"venv-{suite.name}-{mark}"
    if not place.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        half = place.with_name(f".half-{place.name}")
        shutil.rmtree(half, ignore_errors=True)
        command([sys.executable, "-m", "venv", str(half)])
        command([str(half / "bin" / "python"), "-m", "pip", "install", "-q", *wanted])
        half.rename(place)
    return place / "bin" / "python"


def tool(name: str) -> str:
    """A program of this machine."""
    found = shutil.which(name)
    if found is None:
        raise Absent(f"this machine has no {name}")
    return found


def command(words: Sequence[str], cwd: Path | None = None) -> str:
    """What a package manager prints; the suite is absent when it cannot do its work."""
    try:
        done = subprocess.run(
            words, cwd=cwd, capture_output=True, text=True, timeout=_FETCH_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired as fault:
        raise Absent(f"{words[0]} did not end within {_FETCH_TIMEOUT} s") from fault
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise Absent(f"{' '.join(words[:4])} failed: {said[-1]}")
    return done.stdout
