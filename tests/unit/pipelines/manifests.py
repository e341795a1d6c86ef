"""A manifest for tests that are not about what an archive holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from klamm.pipelines.archive.layout import File, Manifest, Part, digest_of, entry_of


def a_manifest(
    path: Path, topic: str = "t", created_ms: int = 1, files: Sequence[File] = ()
) -> Manifest:
    """Of partition 0 up to offset 10, where there are files of it."""
    return Manifest(
        cluster="c",
        topic=topic,
        topic_id="id",
        partitions={"0": entry_of(0, 10, list(files), digest_of(files))} if files else {},
        files=list(files),
        settings=Part("topic.aaaaaaaa.json", ""),
        groups=Part("groups.aaaaaaaa.parquet", ""),
        schema_fingerprint="f",
        writer="w",
        created_ms=created_ms,
        path=path,
    )
