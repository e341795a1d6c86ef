"""Runs numbered pieces of work as Spark tasks, without a row per record; small ones right here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from klamm.model.errors import KlammError
from klamm.pipelines.session.lazily import is_small
from klamm.pipelines.session.session import plain_fault
from klamm.pipelines.session.workers import begin_task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_tasks(spark: SparkSession, count: int, work: Callable[[int], Iterable[Any]]) -> list[Any]:
    """Runs `work` for each number in a task of its own; each answer travels as a line of JSON."""
    if count == 0:
        return []
    if is_small(spark):
        return _here(count, work)

    def tasks(frames: Iterator[Any]) -> Iterator[Any]:
        begin_task()
        for frame in frames:
            for number in frame.column("id").to_pylist():
                answers = [json.dumps(answer) for answer in work(number)]
                yield pa.RecordBatch.from_arrays([pa.array(answers, pa.string())], ["answer"])

    numbers = spark.range(0, count, 1, count)
    rows = numbers.mapInArrow(tasks, "answer string").collect()
    return [json.loads(row.answer) for row in rows]


def _here(count: int, work: Callable[[int], Iterable[Any]]) -> list[Any]:
    """The same without Spark; a fault of the system is as plain as Spark's would be made."""
    try:
        return [
            json.loads(json.dumps(answer)) for number in range(count) for answer in work(number)
        ]
    except OSError as fault:
        raise KlammError(plain_fault(str(fault))) from fault
