"""A look at samples of a topic, before anything is copied: sizes, skew, and whether keys are where
their hashes lead. Three windows of each partition are read; what they say is scaled up.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from klamm.client.settings import ConnectionOptions
from klamm.pipelines.jobs.tasks import run_tasks
from klamm.pipelines.records.batches import pieces_of, positive_murmur2
from klamm.pipelines.repartition.chunks import Cutting, frames_of
from klamm.pipelines.repartition.plan import Reshaping, Stretch, Way
from klamm.pipelines.source.ranges import Range

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SAMPLE: Final = 4096  # offsets
_PASSES: Final = 3  # it is copied, and both are read again


@dataclass(frozen=True, slots=True)
class SampleSurvey:
    """An estimate from samples."""

    records: int
    bytes: int
    target_records: list[int]
    target_bytes: list[int]
    strange: int  # sampled records whose keys lead to another partition
    sampled: int
    seconds: float

    @property
    def skew(self) -> float:
        """The largest target against the middle of all."""
        mean = sum(self.target_bytes) / max(len(self.target_bytes), 1)
        return max(self.target_bytes, default=0) / mean if mean else 1.0


def survey(
    spark: SparkSession,
    connection: ConnectionOptions,
    ranges: Mapping[int, Range],
    targets: int,
    *,
    cores: int,
) -> SampleSurvey:
    """Reads samples of every source."""
    order, sources = sorted(ranges), len(ranges)
    cutting = Cutting(
        connection=connection, ranges=ranges, shape=Reshaping(sources, targets, Way.SHUFFLE)
    )

    def work(number: int) -> Iterable[Any]:
        began = time.perf_counter()
        found = _sampled(cutting, ranges[order[number]])
        return [[*found, time.perf_counter() - began]]

    answers = run_tasks(spark, sources, work)
    records = [round(sum(a[0][t] for a in answers)) for t in range(targets)]
    sizes = [round(sum(a[1][t] for a in answers)) for t in range(targets)]
    sampled, busy = sum(a[3] for a in answers), sum(a[4] for a in answers)
    rate = sampled / busy if busy and sampled else 1.0
    return SampleSurvey(
        sum(records),
        sum(sizes),
        records,
        sizes,
        sum(a[2] for a in answers),
        sampled,
        sum(records) / rate * _PASSES / max(min(cores, sources), 1),
    )


def _sampled(cutting: Cutting, whole: Range) -> tuple[list[float], list[float], int, int]:
    """Records and bytes for each target, as they would be of all of a source."""
    shape, source = cutting.shape, whole.partition
    records, sizes = np.zeros(shape.targets), np.zeros(shape.targets)
    strange = seen = offsets_read = 0
    last = max(whole.start, whole.stop - _SAMPLE)
    firsts = {whole.start, (whole.start + last) // 2, last}
    position = whole.start
    for first in sorted(firsts):
        first, stop = max(first, position), min(first + _SAMPLE, whole.stop)
        if stop <= first:
            continue
        position, offsets_read = stop, offsets_read + stop - first
        for frame in frames_of(cutting, Stretch(0, source, first, stop)):
            key = pieces_of(frame.column("key"))
            hashes, has_key = positive_murmur2(key), key.size >= 0
            offsets = frame.column("offset").to_numpy()
            target = shape.target_of(source, hashes, offsets, has_key)
            np.add.at(records, target, 1)
            value = np.maximum(pieces_of(frame.column("value")).size, 0)
            np.add.at(sizes, target, value + np.maximum(key.size, 0))
            strange += int((has_key & (hashes % shape.sources != source)).sum())
            seen += frame.num_rows
    scale = whole.size / offsets_read if offsets_read else 0.0
    return (records * scale).tolist(), (sizes * scale).tolist(), strange, seen
