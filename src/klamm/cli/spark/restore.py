"""`klamm restore`: fill a topic with archived records, and prove that they are all there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from klamm.cli.options import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_MASTER,
    BootstrapOption,
    MasterOption,
    Output,
    OutputOption,
    new_app,
)
from klamm.cli.output import print_json, say
from klamm.cli.parsing.declared import Argument, Option
from klamm.cli.spark.jobs import (
    DEFAULT_PATIENCE,
    GroupBytesOption,
    PatienceOption,
    connection,
    job,
    look_first,
    need_spark,
    plain,
    watcher,
)
from klamm.cli.times import parse_time
from klamm.model.errors import UsageError

if TYPE_CHECKING:
    from klamm.client.settings import ConnectionOptions
    from klamm.pipelines.archive.exact import ExactlyRestored
    from klamm.pipelines.archive.layout import Manifest
    from klamm.pipelines.archive.restoring import Restored

app = new_app("Restore a topic from its archive, and verify it.")


@app.command()
def restore(
    directory: Annotated[Path, Argument(metavar="DIR", help="the directory of archives")],
    topic: Annotated[str | None, Option("--topic", help="the topic whose archive to use")] = None,
    to: Annotated[
        str | None, Option("--to", metavar="NAME", help="restore under this name")
    ] = None,
    as_of: Annotated[
        str | None,
        Option(
            metavar="TIME|OFFSETS",
            help="only records up to 2026-11-15T08:30, or before these offsets: "
            '\'{"0": 120, "1": 98}\'',
        ),
    ] = None,
    exact: Annotated[
        bool,
        Option(
            "--exact/--append",
            help="with the offsets, batches and producers that the topic had (klamm clusters), or "
            "with new offsets",
        ),
    ] = False,
    check: Annotated[bool, Option(help="verify the archive before restoring")] = True,
    group_bytes: GroupBytesOption = None,
    output: OutputOption = Output.TEXT,
    patience: PatienceOption = DEFAULT_PATIENCE,
    master: MasterOption = DEFAULT_MASTER,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Fill a topic with archived records.

    Offsets are new and dense; times, keys, values, headers and the order in each partition are
    kept; consumer groups go on where they stopped. With --exact offsets, their gaps, batches,
    producers and leader epochs are kept as well, and producers have to wait until it has ended.

    Example: klamm restore /data/archive --topic orders --to orders-again
    """
    as_of_ms, before = parse_limit(as_of)
    if exact and as_of is not None:
        raise UsageError("--exact restores all of an archive: leave out --as-of, or --exact")
    need_spark(master)
    from klamm.pipelines.archive.shelf import find_archive

    archived = find_archive(directory, topic)
    reach = connection(bootstrap_server, patience_s=patience)
    look_first(reach)
    from klamm.client.blocking.lookup import Lookup
    from klamm.pipelines.archive import restoring as pipeline
    from klamm.pipelines.archive.files import GROUP_BYTES_MAX
    from klamm.pipelines.archive.restore_topic import Limit, check_target

    if exact:
        how = _How(master, output, to, check, group_bytes or GROUP_BYTES_MAX)
        _restore_exactly(reach, archived, directory, how)
        return
    limit = Limit(time_ms=as_of_ms, offsets=before)
    check_target(Lookup(reach), archived, to or archived.topic, limit)
    with job(master, f"restore {directory}") as spark:
        done = pipeline.restore(
            spark,
            reach,
            archived,
            to=to,
            as_of_ms=as_of_ms,
            before=before,
            check=check,
            group_bytes=group_bytes or GROUP_BYTES_MAX,
            progress=watcher(output),
        )
    if output is Output.JSON:
        print_json(plain(pipeline.summary(done)))
    else:
        say(*_summary(done))


class _How(NamedTuple):
    """The options of an exact restore."""

    master: str
    output: Output
    to: str | None
    check: bool
    group_bytes: int


def _restore_exactly(
    reach: ConnectionOptions, archived: Manifest, directory: Path, how: _How
) -> None:
    from klamm.client.blocking.lookup import Lookup
    from klamm.pipelines.archive import exact as pipeline

    pipeline.check_exact(Lookup(reach), archived, how.to or archived.topic)
    with job(how.master, f"restore {directory}") as spark:
        done = pipeline.restore_exactly(
            spark,
            reach,
            archived,
            to=how.to,
            check=how.check,
            group_bytes=how.group_bytes,
            progress=watcher(how.output),
        )
    if how.output is Output.JSON:
        print_json(plain(pipeline.summary(done)))
    else:
        say(*_exact_summary(done))


def _exact_summary(done: ExactlyRestored) -> Iterator[str]:
    yield (
        f"restored {done.records:,} records to {done.topic} with their offsets in "
        f"{done.seconds:.1f} s; read back, every window and every batch is as it was archived"
    )
    if done.resumed:
        yield f"{done.resumed:,} offsets were already there from an interrupted run"
    for group, count in done.groups.items():
        yield f"group {group} has the offsets that it had ({count} partitions)"
    yield from done.notes


def _summary(done: Restored) -> Iterator[str]:
    yield (
        f"restored {done.records:,} records to {done.topic} in {done.seconds:.1f} s; read back, "
        "every window of records is as it was archived"
    )
    if done.resumed:
        yield f"{done.resumed:,} of them were already there from an interrupted run"
    for group, count in done.groups.items():
        yield f"group {group} continues where it stopped ({count} partitions)"
    yield from done.notes
    yield f"offset map: {done.offset_map}"


def parse_limit(text: str | None) -> tuple[int | None, dict[int, int] | None]:
    """A time, or offsets of partitions as JSON."""
    if text is None:
        return None, None
    if not text.lstrip().startswith("{"):
        return parse_time(text), None
    try:
        found = {int(p): o for p, o in json.loads(text).items()}
    except ValueError:
        found = {-1: None}
    if not all(type(offset) is int for offset in found.values()):
        raise UsageError(f'{text!r} are not offsets: write {{"0": 120, "1": 98}}')
    return None, found
