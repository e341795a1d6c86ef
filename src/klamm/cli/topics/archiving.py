"""`klamm topics delete --archive`: what the command says while topics are archived."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from klamm.cli.options import Output
from klamm.cli.output import say
from klamm.cli.reach import Reach, reach_of
from klamm.cli.spark.jobs import (
    DEFAULT_PATIENCE,
    connection,
    job,
    look_first,
    need_spark,
    watcher,
)


@contextmanager
def archived(
    names: Sequence[str],
    root: Path,
    output: Output,
    if_exists: bool,
    master: str,
    bootstrap: Reach | str,
    *,
    patience_s: float = DEFAULT_PATIENCE,
) -> Iterator[list[dict[str, object]]]:
    """Archives topics; in the block all of them may be deleted. Yields what the ledger says."""
    need_spark(master)
    from klamm.client.blocking.lookup import Lookup
    from klamm.pipelines.archive.before_deletion import Safekeeping
    from klamm.pipelines.archive.layout import MANIFEST

    lookup = Lookup(connection(bootstrap, patience_s=patience_s))
    if if_exists:
        names = [name for name in names if name in lookup.view(names).topics]
    for name in names:
        look_first(lookup.options, name)
    if not names:
        yield []
        return
    from klamm.pipelines.places.place import check_writable

    check_writable(root)
    keeping = Safekeeping(lookup, reach_of(bootstrap).settings, root, lambda: watcher(output))
    with keeping.archived(lambda: job(master, f"archive {', '.join(names)}"), names) as kept:
        if output is Output.TEXT:
            for each in kept:
                say(
                    f"archived and verified {each.manifest.records:,} records of "
                    f"{each.manifest.topic}"
                )
                say(each.manifest.path / MANIFEST)
        yield [each.entry for each in kept]
