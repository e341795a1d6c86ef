"""Archiving topics before they are deleted: only what is proven to be kept may go.

A topic that is still written to is refused, unless it is frozen. One at rest is frozen here, and
every broker is asked whether it obeys, so that nothing slips in between the last record of the
archive and the deletion; where one of several topics is refused, or their deletion is, all of them
can be written to again. The controller writes down where the archives lie, and deletes by id: a
topic that has taken the name since is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager as Context
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from klamm.client.aio import freezing
from klamm.client.aio.visit import visit
from klamm.client.blocking.lookup import Lookup
from klamm.client.errors import Answered, Unreachable
from klamm.client.settings import ClientSettings
from klamm.model.errors import KlammError, UsageError
from klamm.model.settings.topic import FROZEN
from klamm.pipelines.archive.archiving import archive, refuse_damage, verify
from klamm.pipelines.archive.layout import MANIFEST, Manifest, read_manifest, sha256
from klamm.pipelines.jobs.progress import Progress
from klamm.pipelines.places.remote import RemotePath
from klamm.pipelines.session.session import plain_fault
from klamm.protocol.private import PrivateKey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class ArchivedTopic:
    """One archived topic, and what the controller's ledger says of the archive."""

    manifest: Manifest
    entry: dict[str, object]


@dataclass(slots=True)
class Safekeeping:
    """Archives topics at rest, and remembers which of them it froze."""

    lookup: Lookup
    settings: ClientSettings | None  # of the client that talks to the controller
    root: Path | RemotePath
    progress: Callable[[], Progress]
    _frozen: list[str] = field(default_factory=list)

    @contextmanager
    def archived(
        self, session: Callable[[], Context[SparkSession]], names: Sequence[str]
    ) -> Iterator[list[ArchivedTopic]]:
        """Archives and verifies every topic; in the block all of them may be deleted.

        These and no others: their ids tell them from topics that got their names meanwhile.
        """
        try:
            with session() as spark:
                manifests = [self._archive_at_rest(spark, name) for name in names]
            kept = [self._write_down(manifest) for manifest in manifests]
        except BaseException as fault:
            self._thaw(fault)
            raise
        try:
            yield kept
        except KlammError as fault:
            self._thaw(fault)
            raise

    def _archive_at_rest(self, spark: SparkSession, name: str) -> Manifest:
        """Archives what is there, freezes the topic, and archives what came before that held."""
        lookup, root = self.lookup, self.root
        found = lookup.view([name]).topics.get(name)
        if found is None:
            raise UsageError(f"there is no topic {name}")
        before = lookup.latest(found.partitions)
        manifest = archive(spark, lookup.options, name, root, progress=self.progress()).manifest
        if lookup.configs(name).get(FROZEN) != "true":
            if lookup.latest(found.partitions) != before:
                raise UsageError(
                    f"{name} is still written to: stop its producers, "
                    f"or `klamm topics freeze {name}`"
                )
            lookup.alter(name, {FROZEN: "true"})
            self._frozen.append(name)
        visit(self._servers, self.settings, lambda admin: freezing.until_at_rest(admin, [name]))
        manifest = archive(
            spark, lookup.options, name, root, progress=self.progress(), after=manifest
        ).manifest
        found = lookup.view([name]).topics[name]  # it may have grown
        ends = {p: e.end for p, e in manifest.partitions.items()}
        if ends != {str(tp.partition): o for tp, o in lookup.latest(found.partitions).items()}:
            raise UsageError(f"{name} has an open transaction: let it end, then delete the topic")
        refuse_damage(verify(spark, manifest, progress=self.progress()))
        return manifest

    def _write_down(self, manifest: Manifest) -> ArchivedTopic:
        """Has the controller enter the archive into its ledger, which outlives the topic."""
        path = manifest.path / MANIFEST
        if read_manifest(manifest.path) != manifest:
            raise KlammError(
                f"another process archived {manifest.topic} to {path} meanwhile; run this again"
            )
        entry: dict[str, object] = {
            "topic": manifest.topic,
            "topic_id": manifest.topic_id,
            "records": manifest.records,
            "manifest": str(path),
            "sha256": sha256(path),
        }
        key = PrivateKey.ARCHIVED
        visit(self._servers, self.settings, lambda admin: admin.ask_controller(key, entry))
        return ArchivedTopic(manifest, entry)

    def _thaw(self, fault: BaseException) -> None:
        """Lets topics be written to again, but for those that are on their way out."""
        frozen = self._frozen
        try:
            for name in self.lookup.view(frozen).topics if frozen else ():
                self.lookup.alter(name, {FROZEN: None})
        except (Unreachable, Answered):
            raise KlammError(
                f"{plain_fault(str(fault) or 'interrupted')}; still frozen: run this again, or "
                f"`klamm topics unfreeze {' '.join(frozen)}`"
            ) from fault

    @property
    def _servers(self) -> str:
        return self.lookup.options.servers
