"""Builds the loops over records in C when klamm is installed.

All it takes is a C compiler. Where there is none, or it fails, klamm is installed without the
library and checks records by hand; `KLAMM_NO_NATIVE=1` has the same effect. `python hatch_build.py`
builds the library into the working copy, as an editable installation does.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # when it is run by hand, nothing of it is needed
    BuildHookInterface = object

ROOT = Path(__file__).parent
SOURCE = ROOT / "src" / "klamm" / "protocol" / "native" / "records.c"
LIBRARY = SOURCE.with_name("klamm-records.so")
PLACE_IN_WHEEL = "klamm/protocol/native/klamm-records.so"
TIMEOUT_S = 120


class Unbuilt(Exception):
    """Why there is no library."""


class CustomBuildHook(BuildHookInterface):
    """Puts the library into a wheel; into the working copy, where that is what is installed."""

    place: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it collects the files."""
        is_editable = version == "editable"
        try:
            self.place = tempfile.TemporaryDirectory(prefix="klamm-native-")
            library = LIBRARY if is_editable else Path(self.place.name) / LIBRARY.name
            build(library)
        except (Unbuilt, OSError) as fault:
            self.app.display_warning(f"klamm: records will be checked by hand: {fault}")
            return
        if not is_editable:
            build_data["force_include"][str(library)] = PLACE_IN_WHEEL
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{_platform()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called by hatchling when the wheel is written."""
        if self.place is not None:
            self.place.cleanup()


def build(library: Path, source: Path = SOURCE) -> None:
    """Compiles the source, and puts the library in its place once it is known to load."""
    if os.environ.get("KLAMM_NO_NATIVE", "0") not in ("", "0"):
        raise Unbuilt("KLAMM_NO_NATIVE is set")
    with tempfile.TemporaryDirectory(dir=library.parent, prefix=".native-") as directory:
        fresh = Path(directory) / library.name
        number = zlib.crc32(source.read_bytes())
        _run([*_compiler(), *_flags(number), "-o", str(fresh), str(source)])
        # Compilers for other machines, and broken ones, are found out here and not by a broker.
        _run([sys.executable, "-c", _TRIAL, str(fresh), str(number)])
        os.replace(fresh, library)


_TRIAL = (
    "import ctypes, sys\n"
    "number = ctypes.PyDLL(sys.argv[1]).klamm_source\n"
    "number.restype = ctypes.c_uint32\n"
    "sys.exit(number() != int(sys.argv[2]))"
)


def _compiler() -> list[str]:
    wanted = os.environ.get("CC")
    if wanted:
        return shlex.split(wanted)
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    raise Unbuilt("there is no C compiler (cc, gcc or clang; or name one in CC)")


def _flags(number: int) -> list[str]:
    flags = ["-std=c11", "-O2", "-shared", "-fPIC", f"-DKLAMM_SOURCE={number}u"]
    if sys.platform == "darwin":  # Python's own functions are found when the library is loaded
        flags += ["-undefined", "dynamic_lookup"]
    return flags


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise Unbuilt(f"{command[0]} cannot be run: {fault}") from fault
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise Unbuilt(f"{command[0]} failed: {said[-1] if said else done.returncode}")


def _platform() -> str:
    """The machine that a wheel is for; nothing is claimed about other distributions."""
    from packaging.tags import sys_tags

    platforms = (tag.platform for tag in sys_tags())
    return next(name for name in platforms if not name.startswith(("manylinux", "musllinux")))


if __name__ == "__main__":
    build(LIBRARY)
    sys.stdout.write(f"built {LIBRARY}\n")
