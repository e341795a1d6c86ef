"""Archiving topics before they are deleted: only what is proven to be kept may go.

A topic that is still written to is refused, unless it is frozen. One at rest is frozen here, so
that nothing slips in between the last record of the archive and the deletion.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from klamm.cli.archive import refuse
from klamm.cli.options import Output
from klamm.cli.spark_jobs import (
    DEFAULT_MASTER,
    connection,
    job,
    look_first,
    make_directory,
    need_spark,
    watcher,
)
from klamm.model.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from klamm.pipelines.archive_layout import Manifest
    from klamm.pipelines.cluster import Lookup


def archive_before_deletion(
    names: Sequence[str], root: Path, output: Output, bootstrap: str
) -> None:
    """Archives and verifies every topic; returns only when all of them may be deleted."""
    need_spark()
    make_directory(root)
    for name in names:
        look_first(connection(bootstrap), name)
    with job(DEFAULT_MASTER, f"archive {', '.join(names)}") as spark:
        from klamm.pipelines.cluster import Lookup

        lookup = Lookup(connection(bootstrap))
        for name in names:
            manifest = _archive_at_rest(spark, lookup, name, root, output)
            if output is Output.TEXT:
                print(f"archived and verified {manifest.records:,} records of {name}")
                print(manifest.path / "manifest.json")


def _archive_at_rest(
    spark: SparkSession, lookup: Lookup, name: str, root: Path, output: Output
) -> Manifest:
    from klamm.pipelines.archive import archive, verify
    from klamm.pipelines.restore import FROZEN

    found = lookup.view([name]).topics.get(name)
    if found is None:
        raise UsageError(f"there is no topic {name}")
    was_frozen = lookup.configs(name).get(FROZEN) == "true"
    before = lookup.latest(found.partitions)
    manifest = archive(spark, lookup.options, name, root, progress=watcher(output)).manifest
    if not was_frozen:
        if lookup.latest(found.partitions) != before:
            raise UsageError(
                f"{name} is still written to: stop its producers, or `klamm topics freeze {name}`"
            )
        lookup.alter(name, {FROZEN: "true"})
    try:
        # What came before the freeze took hold: one more window, or nothing.
        manifest = archive(spark, lookup.options, name, root, progress=watcher(output)).manifest
        ends = {p: e.end for p, e in manifest.partitions.items()}
        if ends != {str(tp.partition): o for tp, o in lookup.latest(found.partitions).items()}:
            raise UsageError(f"{name} has an open transaction: let it end, then delete the topic")
        refuse(verify(spark, manifest, progress=watcher(output)))
    except BaseException:
        if not was_frozen:
            lookup.alter(name, {FROZEN: None})
        raise
    return manifest
