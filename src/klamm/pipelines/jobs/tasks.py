"""Runs numbered pieces of work as Spark tasks, without a row per record."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from klamm.pipelines.session.workers import begin_task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_tasks(spark: SparkSession, count: int, work: Callable[[int], Iterable[Any]]) -> list[Any]:
    """Runs `work` for each number in a task of its own; each answer travels as a line of JSON."""
    if count == 0:
        return []

    def tasks(frames: Iterator[Any]) -> Iterator[Any]:
        begin_task()
        for frame in frames:
            for number in frame.column("id").to_pylist():
                answers = [json.dumps(answer) for answer in work(number)]
                yield pa.RecordBatch.from_arrays([pa.array(answers, pa.string())], ["answer"])

    numbers = spark.range(0, count, 1, count)
    rows = numbers.mapInArrow(tasks, "answer string").collect()
    return [json.loads(row.answer) for row in rows]
