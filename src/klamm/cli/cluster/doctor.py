"""`klamm doctor` checks whether this machine can run a cluster, and says what to fix.

Each check looks at one thing and returns a `Finding`; only a PROBLEM makes the exit code 1, for a
NOTE concerns what a plain cluster can do without (Spark, a ZooKeeper, compiled loops, many files).
"""

from __future__ import annotations

import platform
import resource
import shutil
import socket
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Annotated

from klamm.cli.options import Output, OutputOption, new_app
from klamm.cli.output import print_json, say
from klamm.cli.parsing.declared import Option
from klamm.datadir import default_data
from klamm.installing import install_command
from klamm.pipelines.session.java import NoJava, find_java
from klamm.protocol.native.library import UNWANTED
from klamm.protocol.native.records import LOOPS, Loops

app = new_app("Check whether this machine can run a cluster, and say what to fix.")

_DISK_WANTED = 1 << 30
_FILES_WANTED = 4096


class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """A result of one check, with advice."""

    level: Level
    subject: str
    fact: str
    advice: str = ""


@app.command()
def doctor(
    data: Annotated[
        Path | None, Option(help="the data directory to check", show_default=False)
    ] = None,
    port: Annotated[int, Option(help="the first port to check")] = 9092,
    brokers: Annotated[int, Option(help="how many ports to check", min=1)] = 3,
    output: OutputOption = Output.TEXT,
) -> None:
    """Check whether this machine can run a cluster, and say what to fix.

    Example: klamm doctor
    """
    findings = list(examine(data or default_data(), port, brokers))
    if output is Output.JSON:
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            say(f"{finding.level:8} {finding.subject:11} {finding.fact}")
            if finding.advice:
                say(f"{'':20} -> {finding.advice}")
    if any(finding.level is Level.PROBLEM for finding in findings):
        raise SystemExit(1)


def examine(data: Path, port: int, brokers: int) -> Iterator[Finding]:
    """Every check, in the order in which a start would fail."""
    yield _python()
    yield from _packages()
    yield _records(LOOPS)
    yield _java()
    yield _files()
    yield _disk(data)
    yield _ports(port, brokers)


def _python() -> Finding:
    # An older Python than klamm needs would not have come this far.
    fact = f"{platform.python_implementation()} {platform.python_version()}"
    return Finding(Level.OK, "python", f"{fact} at {sys.executable}")


def _packages() -> Iterator[Finding]:
    """klamm's own requirements, and which of its extras are complete."""
    missing: dict[str, list[str]] = {"": []}
    for requirement in metadata.requires("klamm") or ():
        name, extra = _parse_requirement(requirement)
        missing.setdefault(extra, [])
        if _version(name) is None:
            missing[extra].append(name)
    for extra, names in missing.items():
        if extra == "dev":
            continue
        subject = f"[{extra}]" if extra else "packages"
        if not names:
            yield Finding(Level.OK, subject, "all packages installed")
        else:
            level = Level.NOTE if extra else Level.PROBLEM
            fact = f"not installed: {', '.join(names)}"
            yield Finding(level, subject, fact, install_command(*filter(None, [extra])))


def _parse_requirement(text: str) -> tuple[str, str]:
    """The package a requirement names, and the extra it belongs to ('' = always needed)."""
    head, _, marker = text.partition(";")
    stop = next((at for at, char in enumerate(head) if char in " <>=!~[("), len(head))
    quoted = marker.replace('"', "'").split("'") if "extra" in marker else ["", ""]
    return head[:stop], quoted[1]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _records(loops: Loops) -> Finding:
    """The finding about how a broker checks the records of a batch."""
    if loops.kernel is not None:
        return Finding(Level.OK, "records", "each record is checked, by compiled loops")
    fact = f"records are checked by hand, and not each of them: {loops.why_not}"
    advice = f"install a C compiler, then: {install_command(more='--force-reinstall --no-deps ')}"
    if loops.why_not.startswith(UNWANTED):
        advice = f"unset {UNWANTED} to use the compiled loops"
    return Finding(Level.NOTE, "records", fact, advice)


def _java() -> Finding:
    try:
        java = find_java()
    except NoJava as fault:
        return Finding(Level.NOTE, "java", fault.found, f"only Spark needs it: {fault.advice}")
    return Finding(Level.OK, "java", f"{java.version} ({java.origin})")


def _files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    ceiling = "no limit" if hard == resource.RLIM_INFINITY else str(hard)
    fact = f"{soft} open files, may be raised to {ceiling}"
    if hard != resource.RLIM_INFINITY and hard < _FILES_WANTED:
        advice = "klamm keeps few files open and works; many clients need more: ulimit -Hn"
        return Finding(Level.NOTE, "files", fact, advice)
    return Finding(Level.OK, "files", fact)


def _disk(data: Path) -> Finding:
    where = next(path for path in (data, *data.parents) if path.exists())
    if not _is_writable(where):
        advice = "choose another with klamm up --data DIR, or run with --ephemeral"
        return Finding(Level.PROBLEM, "disk", f"{where} is not writable", advice)
    free = shutil.disk_usage(where).free
    fact = f"{free / (1 << 30):.1f} GiB free at {where}"
    if free < _DISK_WANTED:
        return Finding(Level.NOTE, "disk", fact, "make room, or choose another with --data DIR")
    return Finding(Level.OK, "disk", fact)


def _is_writable(directory: Path) -> bool:
    import tempfile

    try:
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


def _ports(first: int, count: int) -> Finding:
    taken = [port for port in range(first, first + count) if not _is_free(port)]
    if taken:
        fact = f"taken: {', '.join(map(str, taken))}"
        advice = "a cluster may already run; otherwise klamm up --port N, or --port 0 for free ones"
        return Finding(Level.NOTE, "ports", fact, advice)
    return Finding(Level.OK, "ports", f"{first} to {first + count - 1} are free")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
