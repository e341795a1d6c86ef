"""The Python processes of Spark, between tasks."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter

import pyspark
from pyspark.sql import SparkSession

from klamm.pipelines.jobs.tasks import run_tasks
from klamm.pipelines.session.workers import begin_task


def test_what_modules_leave_behind_is_not_collected_after_each_task(spark: SparkSession) -> None:
    def kept(_number: int) -> list[list[int]]:
        return [[os.getpid(), gc.get_freeze_count()]]

    found = run_tasks(spark, 4, kept)
    tasks = Counter(process for process, _ in found)
    # After a process's first task it is all of Spark's and Arrow's modules: 90,000 and more.
    later = [count for process, count in dict(found).items() if tasks[process] > 1]
    assert min(later) > 50_000


def test_processes_import_what_is_installed_and_compiled(spark: SparkSession) -> None:
    """Not what Spark brings in an archive."""

    def of_pyspark(_number: int) -> list[str]:
        return [sys.modules["pyspark"].__file__ or ""]

    assert run_tasks(spark, 1, of_pyspark) == [pyspark.__file__]


def test_a_process_that_is_not_sparks_is_left_alone() -> None:
    before = gc.get_freeze_count()
    begin_task()
    assert gc.get_freeze_count() == before
