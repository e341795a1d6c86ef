"""The data source under another name, in processes that die at a chosen step, by `kill -9`.

A query lives in many processes: one plans it, tasks write, one more reports a micro-batch as
written. Each dies before the step that an option names. To Spark that is a failure like any other,
and what is left of the query is what a crash of the whole machine would leave: the files of the
checkpoint, the first offsets, what brokers have taken.

Spark's processes know no tests: these classes travel to them as they are.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import SparkSession
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from klamm.client.blocking.wire import Wire
from klamm.pipelines.source.datasource import KlammDataSource, KlammStreamWriter, KlammWriter
from klamm.pipelines.source.options import parse_write
from klamm.protocol.apis import ApiKey


@dataclass
class Fate:
    """What becomes of the processes of one query."""

    deadly: str

    def reached(self, step: str) -> None:
        """The process is about to do this."""
        if step == self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    @contextmanager
    def over_requests(self) -> Iterator[None]:
        """The first two batches that a task sends, the first two transactions that end."""
        post, counts = Wire.post, Counter[int]()
        names = {ApiKey.PRODUCE: "send batch", ApiKey.END_TXN: "commit"}

        def posted(wire: Wire, key: int, *rest: Any) -> None:
            if key in names and (count := counts[key] + 1) < 3:
                counts[key] = count
                self.reached(f"{names[ApiKey(key)]} {count}")
            post(wire, key, *rest)

        Wire.post = posted  # type: ignore[method-assign]
        try:
            yield
        finally:
            Wire.post = post  # type: ignore[method-assign]


class Dying(KlammDataSource):
    """`klamm`, and it dies."""

    def __init__(self, options: dict[str, str]) -> None:
        given = {key.lower(): value for key, value in options.items()}
        self._fate = Fate(given.pop("deadly", ""))
        super().__init__(given)

    @classmethod
    def name(cls) -> str:
        return "dying"

    def writer(self, schema: StructType, overwrite: bool) -> KlammWriter:
        writer = DyingWriter(parse_write(self.options))
        writer.fate = self._fate
        return writer

    def streamWriter(self, schema: StructType, overwrite: bool) -> KlammStreamWriter:
        writer = DyingStreamWriter(parse_write(self.options, streaming=True), schema)
        writer.fate = self._fate
        return writer


class DyingWriter(KlammWriter):
    fate: Fate

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        with self.fate.over_requests():
            return super().write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        with self.fate.over_requests():
            super().commit(messages)


class DyingStreamWriter(KlammStreamWriter):
    fate: Fate

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        with self.fate.over_requests():
            return super().write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        with self.fate.over_requests():
            super().commit(messages, batchId)
        self.fate.reached("write the log of commits")


def introduce(spark: SparkSession) -> None:
    """Makes the format `dying` known."""
    register_pickle_by_value(sys.modules[__name__])
    spark.dataSource.register(Dying)
