"""`klamm archive`: keep a topic as Parquet files with proof, and look after such archives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from klamm.cli.options import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_MASTER,
    BootstrapOption,
    MasterOption,
    Output,
    OutputOption,
    new_app,
)
from klamm.cli.output import counted, print_json, say, say_text, table
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
    require_pyarrow,
    size_text,
    watcher,
    when,
)
from klamm.model.errors import KlammError

_keep = new_app("Archive a topic as Parquet files, and verify them.")
_care = new_app("List, show, verify, clean up and register archives.")
DirectoryArgument = Annotated[Path, Argument(metavar="DIR", help="the directory of archives")]
TopicOption = Annotated[str | None, Option("--topic", help="the topic whose archive to use")]


@_keep.command()
def archive(
    topic: str,
    to: Annotated[Path, Option("--to", metavar="DIR", help="the directory of archives")],
    verify: Annotated[bool, Option("--verify", help="read everything back and compare")] = False,
    output: OutputOption = Output.TEXT,
    patience: PatienceOption = DEFAULT_PATIENCE,
    master: MasterOption = DEFAULT_MASTER,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Archive a topic; or look after archives, with list, show, verify, vacuum, register.

    An interrupted run continues where it stopped.

    Example: klamm archive orders --to archives --verify
    """
    need_spark(master)
    reach = connection(bootstrap_server, patience_s=patience)
    look_first(reach, topic)
    from klamm.pipelines.places.place import check_writable

    check_writable(to)
    with job(master, f"archive {topic}") as spark:
        from klamm.pipelines.archive import archiving as pipeline

        done = pipeline.archive(spark, reach, topic, to, progress=watcher(output))
        faults = pipeline.verify(spark, done.manifest, progress=watcher(output)) if verify else None
    pipeline.refuse_damage(faults or [])
    if output is Output.JSON:
        print_json(
            plain(
                {
                    "manifest": done.manifest_path,
                    "topic": topic,
                    "records": done.manifest.records,
                    "files": len(done.manifest.files),
                    "bytes": done.manifest.bytes,
                    "reused_files": done.reused,
                    "seconds": round(done.seconds, 3),
                    "verified": verify,
                }
            )
        )
        return
    kept = done.manifest
    rate = kept.records / max(done.seconds, 0.001)
    say(
        f"archived {kept.records:,} records of {topic} in {len(kept.files)} files, "
        f"{size_text(kept.bytes)}, {done.seconds:.1f} s ({rate:,.0f} records/s)"
        + (f"; {done.reused} files were there already" if done.reused else "")
    )
    if verify:
        say("verified: every file and every record matches what was read")
    say(done.manifest_path)


@_care.command("list")
def list_(directory: DirectoryArgument, output: OutputOption = Output.TEXT) -> None:
    """List the archives below a directory.

    Example: klamm archive list archives
    """
    from klamm.pipelines.archive.shelf import find_archives

    found, faults = find_archives(directory)
    if output is Output.JSON:
        print_json(
            [
                {"topic": m.topic, "topic_id": m.topic_id, "created_ms": m.created_ms}
                | {"records": m.records, "bytes": m.bytes, "path": str(m.path)}
                for m in found
            ]
        )
    else:
        rows = [
            (m.topic, when(m.created_ms), m.records, size_text(m.bytes), m.topic_id) for m in found
        ]
        say_text(table(("topic", "archived (utc)", "records", "size", "topic id"), rows))
    if faults:
        raise KlammError("; ".join(faults))


@_care.command()
def show(
    directory: DirectoryArgument, topic: TopicOption = None, output: OutputOption = Output.TEXT
) -> None:
    """Describe one archive.

    Example: klamm archive show archives --topic orders
    """
    from klamm.pipelines.archive.shelf import find_archive

    found = find_archive(directory, topic)
    if output is Output.JSON:
        print_json(plain(asdict(found)))
        return
    say(f"{found.topic} ({found.topic_id}) of cluster {found.cluster}")
    say(f"archived {when(found.created_ms)} UTC by {found.writer}: {found.path}")
    rows = [
        (p, e.log_start, e.end, e.records, e.gap_offsets, e.digest)
        for p, e in found.partitions.items()
    ]
    say_text(table(("partition", "first", "end", "records", "gaps", "digest"), rows))


@_care.command()
def verify(
    directory: DirectoryArgument,
    topic: TopicOption = None,
    group_bytes: GroupBytesOption = None,
    master: MasterOption = DEFAULT_MASTER,
    output: OutputOption = Output.TEXT,
) -> None:
    """Read an archive back and compare it with its manifest.

    Example: klamm archive verify archives --topic orders
    """
    from klamm.pipelines.archive.shelf import find_archive

    found = find_archive(directory, topic)
    with job(master, f"verify {found.topic}") as spark:
        from klamm.pipelines.archive import archiving as pipeline
        from klamm.pipelines.archive.files import GROUP_BYTES_MAX

        faults = pipeline.verify(
            spark,
            found,
            progress=watcher(output),
            group_bytes=group_bytes or GROUP_BYTES_MAX,
        )
    if output is Output.JSON:
        print_json({"path": str(found.path), "faults": faults})
    pipeline.refuse_damage(faults)
    if output is Output.TEXT:
        say(f"all {found.records:,} records of {found.topic} are intact")


@_care.command()
def vacuum(directory: DirectoryArgument, output: OutputOption = Output.TEXT) -> None:
    """Remove files that interrupted runs left behind.

    Example: klamm archive vacuum archives
    """
    from klamm.pipelines.archive.shelf import vacuum as clean

    count, size = clean(directory)
    if output is Output.JSON:
        print_json({"files": count, "bytes": size})
    else:
        say(f"removed {count} files, {size_text(size)}")


class TableFormat(StrEnum):
    """The formats that archives are registered as."""

    DELTA = "delta"
    ICEBERG = "iceberg"


@_care.command()
def register(
    directory: DirectoryArgument,
    format_: Annotated[TableFormat, Option("--format", help="the format of the table")],
    topic: TopicOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Make an archive a Delta or Iceberg table; no file is copied.

    Example: klamm archive register archives --topic orders --format delta
    """
    require_pyarrow()
    from klamm.pipelines.archive.shelf import find_archive
    from klamm.pipelines.tables.registering import register as registered

    found = find_archive(directory, topic)
    done = registered(found, str(format_))
    if output is Output.JSON:
        print_json(plain(asdict(done) | {"path": found.path, "format": str(format_)}))
        return
    say(
        f"{found.path} is registered for {format_}, version {done.version}: "
        f"{counted(done.added, 'file')} joined it, {done.removed:,} left it"
    )
    say("control records and rolled-back ones are rows too: filter by is_control and is_aborted")


_CARE: Final = frozenset({"list", "show", "verify", "vacuum", "register"})


def app(*, args: Sequence[str], prog_name: str) -> None:
    """`klamm archive list DIR` and its sisters, or else `klamm archive TOPIC --to DIR`."""
    chosen = _care if args and args[0] in _CARE else _keep
    chosen(args=args, prog_name=prog_name)
