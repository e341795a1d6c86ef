"""`klamm store`: a look into the store, moving it, and bringing it back when it was lost.

`backups`, `restore` and `repair` work on the data directory of a cluster that does not run; the
others on whichever store a cluster has (`place`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from klamm.cli.options import Output, OutputOption, new_app
from klamm.cli.output import print_json, say, say_text, table
from klamm.cli.parsing.declared import Argument, Option
from klamm.cli.store import looking, moving, protecting, watching
from klamm.cli.store.options import DataOption
from klamm.model.errors import UsageError

if TYPE_CHECKING:
    from klamm.datadir import DataDirectory
    from klamm.salvage import Repair
    from klamm.store.tree import Tree

app = new_app("Look into the store, move it, list its back-ups, restore or repair it.")
for command in (
    looking.ls,
    looking.get,
    looking.tree,
    looking.stat,
    watching.watch,
    moving.export,
    moving.import_,
    protecting.protect,
):
    app.command(command.__name__.rstrip("_"))(command)

ExecuteOption = Annotated[
    bool,
    Option("--execute", help="change the store; without it, only print what would change"),
]


@app.command("backups")
def backups_(data: DataOption = None, output: OutputOption = Output.TEXT) -> None:
    """List the back-ups of the store, oldest first.

    Example: klamm store backups
    """
    from klamm.datadir import STORE_NAME
    from klamm.store import backups

    place = _existing(data)
    rows = [_backup_row(found) for found in backups.find(backups.directory_of(place / STORE_NAME))]
    if output is Output.JSON:
        print_json(rows)
    else:
        headers = ("taken", "transaction", "topics", "kind", "bytes", "path")
        say_text(table(headers, [[row[header] for header in headers] for row in rows]))


@app.command()
def restore(
    backup: Annotated[
        Path | None,
        Argument(metavar="[BACKUP]", help="a back-up file [the newest complete one]"),
    ] = None,
    data: DataOption = None,
    execute: ExecuteOption = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Replace the store by a back-up.

    What changed since it was taken is not in it: `klamm store repair` also asks the logs.

    Example: klamm store restore --execute
    """
    from klamm import salvage
    from klamm.store.database import read_copy

    with _claimed(data) as directory:
        if backup is None:
            found, faults = salvage.copies(directory.store)
            kept = [copy for copy in found if copy.path != directory.store]
            if not kept:
                why = f" ({'; '.join(faults)})" if faults else ""
                raise UsageError(f"there is no whole back-up of {directory.store}{why}")
            tree, source = kept[0].tree, kept[0].path
        else:
            tree, source = read_copy(backup), backup
        result = _finish(directory, tree, execute=execute)
        told = {"from": str(source), "executed": execute, **result}
        if output is Output.JSON:
            print_json(told)
            return
        say(f"{'restored' if execute else 'would restore'} {directory.store} from {source}")
        _tell_end(result, execute=execute)


@app.command()
def repair(
    data: DataOption = None,
    log_dir: Annotated[
        list[Path] | None,
        Option(
            "--log-dir",
            metavar="DIR",
            help="a log directory outside the data directory; repeatable",
        ),
    ] = None,
    execute: ExecuteOption = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Rebuild a lost store from its newest complete copy and the brokers' logs.

    Example: klamm store repair --execute
    """
    from klamm import salvage

    for place in log_dir or ():
        if not place.is_dir():
            raise UsageError(f"--log-dir {place} is not a directory")
    with _claimed(data) as directory:
        found = salvage.repair(directory, log_dir or (), now_ms=_now_ms())
        result = _finish(directory, found.tree, execute=execute)
        if output is Output.JSON:
            print_json(_repair_json(found, execute) | result)
            return
        say(*_tell_repair(found, directory.store, execute=execute))
        _tell_end(result, execute=execute)


def _backup_row(found: object) -> dict[str, object]:
    from klamm.store import layout
    from klamm.store.backups import Backup
    from klamm.store.database import read_copy

    assert isinstance(found, Backup)
    try:
        tree = read_copy(found.path)
        topics: int | None = len(tree.children(layout.TOPICS) or ())
        kind = "rescue" if found.is_rescue else "back-up"
    except UsageError:
        topics, kind = None, "damaged"
    taken = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(found.taken_ms / 1000))
    return {
        "taken": taken,
        "transaction": found.zxid,
        "topics": "-" if topics is None else topics,
        "kind": kind,
        "bytes": found.path.stat().st_size,
        "path": str(found.path),
    }


def _finish(directory: DataDirectory, tree: Tree, *, execute: bool) -> dict[str, object]:
    from klamm import salvage

    aside = salvage.put_in_place(directory, tree, now_ms=_now_ms()) if execute else []
    return {"store": str(directory.store), "set_aside": [str(path) for path in aside]}


def _repair_json(found: Repair, execute: bool) -> dict[str, object]:
    return {
        "from": None if found.base is None else str(found.base),
        "topics": found.report.topics,
        "partitions": found.report.partitions,
        "rebuilt": found.report.rebuilt,
        "unknown": found.report.unknown,
        "damaged": found.faults,
        "executed": execute,
    }


def _tell_repair(found: Repair, store: Path, *, execute: bool) -> Iterator[str]:
    report = found.report
    source = f"{found.base} and the logs" if found.base else "the logs alone: no copy is whole"
    yield (
        f"{'rebuilt' if execute else 'would rebuild'} {store} with {report.topics} topics and "
        f"{report.partitions} partitions from {source}"
    )
    for title, lines in (
        ("not used", found.faults),
        ("from the logs", report.rebuilt),
        ("not known any more", report.unknown),
    ):
        if lines:
            yield f"{title}:"
            yield from (f"  {line}" for line in lines)


def _tell_end(result: dict[str, object], *, execute: bool) -> None:
    aside = result["set_aside"]
    assert isinstance(aside, list)
    for path in aside:
        say(f"what was there before is now {path}")
    say("start the cluster again" if execute else "nothing was changed: --execute does it")


def _existing(data: Path | None) -> Path:
    from klamm.datadir import default_data

    place = data or default_data()
    if not place.is_dir():
        raise UsageError(f"{place} is not a directory: name the cluster's with --data")
    return place


@contextmanager
def _claimed(data: Path | None) -> Iterator[DataDirectory]:
    """The data directory, which no cluster may use meanwhile."""
    from klamm.datadir import DataDirectory

    with DataDirectory.claim(_existing(data)) as directory:
        yield directory


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
