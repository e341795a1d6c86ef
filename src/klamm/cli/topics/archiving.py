"""Archiving topics before they are deleted: only what is proven to be kept may go.

A topic that is still written to is refused, unless it is frozen. One at rest is frozen here, and
every broker is asked whether it obeys, so that nothing slips in between the last record of the
archive and the deletion; where one of several topics is refused, or their deletion is, all of them
can be written to again. The controller writes down where the archives lie, and deletes by id: a
topic that has taken the name since is another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from klamm.cli.asking import run
from klamm.cli.options import Output
from klamm.cli.output import say
from klamm.cli.reach import Reach
from klamm.cli.spark.archive import refuse
from klamm.cli.spark.jobs import (
    DEFAULT_PATIENCE,
    connection,
    job,
    look_first,
    make_directory,
    need_spark,
    watcher,
)
from klamm.cli.topics import freezing
from klamm.model.errors import KlammError, UsageError
from klamm.model.settings.topic import FROZEN
from klamm.protocol.private import PrivateKey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from klamm.client.blocking.lookup import Lookup
    from klamm.pipelines.archive.layout import Manifest


@contextmanager
def archived(
    names: Sequence[str],
    root: Path,
    output: Output,
    if_exists: bool,
    master: str,
    bootstrap: Reach,
    *,
    patience_s: float = DEFAULT_PATIENCE,
) -> Iterator[list[dict[str, object]]]:
    """Archives and verifies every topic; in the block all of them may be deleted.

    These and no others: their ids tell them from topics that got their names meanwhile.
    """
    need_spark(master)
    from klamm.client.blocking.lookup import Lookup
    from klamm.pipelines.archive.layout import MANIFEST

    lookup = Lookup(connection(bootstrap, patience_s=patience_s))
    if if_exists:
        names = [name for name in names if name in lookup.view(names).topics]
    for name in names:
        look_first(lookup.options, name)
    if not names:
        yield []
        return
    make_directory(root)
    frozen: list[str] = []  # by this command
    try:
        with job(master, f"archive {', '.join(names)}") as spark:
            manifests = [
                _archive_at_rest(spark, lookup, n, root, output, frozen, bootstrap) for n in names
            ]
        archives = [_written_down(manifest, bootstrap) for manifest in manifests]
    except BaseException as fault:
        _thaw(lookup, frozen, fault)
        raise
    if output is Output.TEXT:
        for manifest in manifests:
            say(f"archived and verified {manifest.records:,} records of {manifest.topic}")
            say(manifest.path / MANIFEST)
    try:
        yield archives
    except KlammError as fault:
        _thaw(lookup, frozen, fault)
        raise


def _thaw(lookup: Lookup, frozen: Sequence[str], fault: BaseException) -> None:
    """Lets topics be written to again, but for those that are on their way out."""
    from klamm.client.errors import Answered, Unreachable
    from klamm.pipelines.session.session import plain_fault

    try:
        for name in lookup.view(frozen).topics if frozen else ():
            lookup.alter(name, {FROZEN: None})
    except (Unreachable, Answered):
        raise KlammError(
            f"{plain_fault(str(fault) or 'interrupted')}; still frozen: run this again, or "
            f"`klamm topics unfreeze {' '.join(frozen)}`"
        ) from fault


def _written_down(manifest: Manifest, bootstrap: Reach) -> dict[str, object]:
    """Has the controller enter the archive into its ledger, which outlives the topic."""
    from klamm.pipelines.archive.layout import MANIFEST, read_manifest, sha256

    path = manifest.path / MANIFEST
    if read_manifest(manifest.path) != manifest:
        raise KlammError(
            f"another process archived {manifest.topic} to {path} meanwhile; run this again"
        )
    told: dict[str, object] = {
        "topic": manifest.topic,
        "topic_id": manifest.topic_id,
        "records": manifest.records,
        "manifest": str(path),
        "sha256": sha256(path),
    }
    run(bootstrap, lambda admin: admin.ask_controller(PrivateKey.ARCHIVED, told))
    return told


def _archive_at_rest(
    spark: SparkSession,
    lookup: Lookup,
    name: str,
    root: Path,
    output: Output,
    frozen: list[str],
    bootstrap: Reach,
) -> Manifest:
    from klamm.pipelines.archive.archiving import archive, verify

    found = lookup.view([name]).topics.get(name)
    if found is None:
        raise UsageError(f"there is no topic {name}")
    before = lookup.latest(found.partitions)
    manifest = archive(spark, lookup.options, name, root, progress=watcher(output)).manifest
    if lookup.configs(name).get(FROZEN) != "true":
        if lookup.latest(found.partitions) != before:
            raise UsageError(
                f"{name} is still written to: stop its producers, or `klamm topics freeze {name}`"
            )
        lookup.alter(name, {FROZEN: "true"})
        frozen.append(name)
    run(bootstrap, lambda admin: freezing.until_at_rest(admin, [name]))
    # What came before the freeze took hold: one more window, or nothing.
    bar = watcher(output)
    manifest = archive(spark, lookup.options, name, root, progress=bar, after=manifest).manifest
    found = lookup.view([name]).topics[name]  # it may have grown
    ends = {p: e.end for p, e in manifest.partitions.items()}
    if ends != {str(tp.partition): o for tp, o in lookup.latest(found.partitions).items()}:
        raise UsageError(f"{name} has an open transaction: let it end, then delete the topic")
    refuse(verify(spark, manifest, progress=watcher(output)))
    return manifest
