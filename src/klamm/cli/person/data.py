"""`klamm data`: the directory of a local cluster, and how to begin anew."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated, Final

from klamm.cli.options import Output, OutputOption, new_app
from klamm.cli.output import counted, say, tell
from klamm.cli.parsing.declared import Option
from klamm.datadir import LOCK_NAME, STORE_NAME, DataDirectory, count_logs, default_data
from klamm.model.errors import NotThere, UsageError

app = new_app("Show or remove the data of a local cluster.")

DataOption = Annotated[
    Path | None, Option("--data", help="the data directory [$XDG_STATE_HOME/klamm]")
]
# What a cluster keeps in its directory, beside the brokers' own directories.
_MARKS: Final = (STORE_NAME, LOCK_NAME)


@app.command()
def show(data: DataOption = None, output: OutputOption = Output.TEXT) -> None:
    """Show where the data is, and how much of it there is.

    Example: klamm data show
    """
    place = _existing(data)
    told = _facts(place)
    tell(output, told, *_lines(told))


@app.command()
def reset(
    data: DataOption = None,
    confirm: Annotated[
        str | None,
        Option(metavar="NAME", help="the directory's name, instead of typing it"),
    ] = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Remove all topics, records and settings of a local cluster that does not run.

    Example: klamm data reset --confirm klamm
    """
    place = _existing(data)
    told = _facts(place)
    with DataDirectory.claim(place) as claimed:
        _confirm(claimed.path, confirm, told)
        # The lock stays until everything else is gone, so that no cluster starts on a half.
        for entry in sorted(claimed.path.iterdir()):
            if entry.name != LOCK_NAME:
                _remove(entry)
        (claimed.path / LOCK_NAME).unlink(missing_ok=True)
    tell(output, {"removed": str(place)}, f"removed everything in {place}")


def _existing(data: Path | None) -> Path:
    """The directory, if a cluster has ever lived there: nothing else may be removed."""
    place = (data or default_data()).absolute()
    if not place.is_dir():
        raise NotThere(f"there is no directory {place}")
    if not any((place / mark).exists() for mark in _MARKS):
        raise UsageError(f"{place} is not the data directory of a cluster: name one with --data")
    return place.resolve()


def _facts(place: Path) -> dict[str, object]:
    brokers = sorted(path for path in place.glob("broker-*") if path.is_dir())
    size = sum(path.lstat().st_size for path in place.rglob("*") if not path.is_dir())
    return {
        "directory": str(place),
        "brokers": len(brokers),
        "logs": count_logs(brokers),
        "bytes": size,
    }


def _lines(told: dict[str, object]) -> list[str]:
    brokers, logs = int(str(told["brokers"])), int(str(told["logs"]))
    return [
        f"directory: {told['directory']}",
        f"holds: {counted(brokers, 'broker')}, {counted(logs, 'log')} of partitions, "
        f"{told['bytes']:,} bytes",
    ]


def _confirm(place: Path, given: str | None, told: dict[str, object]) -> None:
    if given is None:
        if not sys.stdin.isatty():
            raise UsageError(f"confirm it with --confirm {place.name}, for nobody is here to ask")
        say(*_lines(told))
        say(f"type {place.name} to remove all of it:")
        given = sys.stdin.readline().strip()
    if given != place.name:
        raise UsageError(f"nothing was removed: {given!r} is not {place.name!r}")


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink()
