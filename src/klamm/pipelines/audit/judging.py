"""Judging the controllers by what they wrote down: every transition, in the order they decided it.

The events come from the topic `__klamm_ledger`, from brokers that have not brought theirs there
yet, or from files. `audit_tables` has what is made of them; here it is run, written and summed up.
Tables are written aside and put in their place together, so that an audit that was broken off
leaves the last whole one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from klamm.client.blocking.lookup import Lookup
from klamm.client.security.settings import properties_of
from klamm.client.settings import ConnectionOptions
from klamm.model.names import KLAMM_LEDGER
from klamm.pipelines.audit import tables
from klamm.pipelines.audit.findings import SPANS, Findings, put_in_place, shown
from klamm.pipelines.jobs.progress import Progress, Silent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class LedgerEvidence:
    """The events to judge, and since when they are complete."""

    ledger: DataFrame
    source: str  # in words
    horizon_ms: int = 0


def of_files(spark: SparkSession, path: str) -> LedgerEvidence:
    """A broker's own files; lines that a crash cut short are left out."""
    return LedgerEvidence(spark.read.schema(tables.LEDGER).json(path), f"files in {path}")


def of_entries(spark: SparkSession, entries: Sequence[Mapping[str, Any]]) -> LedgerEvidence:
    """The evidence in the brokers' answers."""
    names = [column.split()[0] for column in tables.LEDGER.split(", ")]
    rows = [tuple(entry.get(name) for name in names) for entry in entries]
    return LedgerEvidence(spark.createDataFrame(rows, tables.LEDGER), "the brokers' files")


def of_topic(
    spark: SparkSession,
    reach: ConnectionOptions,
    waiting: Sequence[Mapping[str, Any]],
    *,
    now_ms: int,
    since_ms: int = 0,
) -> LedgerEvidence | None:
    """The topic, and what brokers have not brought there yet; None where it cannot be read."""
    lookup = Lookup(reach)
    found = lookup.view([KLAMM_LEDGER]).topics.get(KLAMM_LEDGER)
    if found is None or not all(found.leaders.values()):
        return None
    reader = spark.read.format("klamm").schema("value binary").option("subscribe", KLAMM_LEDGER)
    reader = reader.option("kafka.bootstrap.servers", reach.servers)
    for name, value in properties_of(reach.security).items():
        reader = reader.option(f"kafka.{name}", value)
    reader = reader.option("kafkaConsumer.pollTimeoutMs", str(reach.patience_ms))
    if since_ms:
        reader = reader.option("startingTimestamp", str(since_ms))
        reader = reader.option("startingOffsetsByTimestampStrategy", "latest")
    line = F.from_json(F.col("value").cast("string"), tables.LEDGER)
    brought = reader.load().filter("value IS NOT NULL").select(line.alias("line")).select("line.*")
    lag_ms = int(lookup.configs(KLAMM_LEDGER).get("min.compaction.lag.ms", 0))
    both = brought.unionByName(of_entries(spark, waiting).ledger)
    return LedgerEvidence(both, f"the topic {KLAMM_LEDGER}", max(now_ms - lag_ms, 0))


def run(
    spark: SparkSession,
    evidence: LedgerEvidence,
    to: Path,
    *,
    now_ms: int,
    since_ms: int = 0,
    stuck_after_ms: int = 60_000,
    progress: Progress | None = None,
) -> Findings:
    """Judges the events, and writes the tables as Parquet."""
    bar = progress or Silent()
    wanted = tables.since(evidence.ledger, since_ms) if since_ms else evidence.ledger
    found = tables.events(wanted, evidence.ledger).cache()
    horizon_ms = evidence.horizon_ms
    transforms: dict[str, Callable[[DataFrame], DataFrame]] = {
        "illegal": tables.illegal,
        "broken_chains": lambda f: tables.broken_chains(f, horizon_ms=horizon_ms),
        "lost": lambda f: tables.lost(f, horizon_ms=horizon_ms),
        "stuck": lambda f: tables.stuck(f, now_ms=now_ms, limit_ms=stuck_after_ms),
        "moves": tables.made,
        "latency": tables.latency,
        "durations": tables.durations,
        "epochs": tables.epochs,
        "timeline": tables.timeline,
    }
    aside = to.with_name(f"{to.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    total, first, last = _extent(found)
    bar.begin("judging events", total)
    try:
        counts, rows = {}, {}
        for done, (name, transform) in enumerate(transforms.items(), 1):
            counts[name], rows[name] = _table(transform(found), name, aside / name)
            bar.reached(total * done // (len(transforms) + 1), 0)
        by_time = tables.by_time(found, first, last, SPANS).orderBy("span", "entity").collect()
        day = F.to_date(F.timestamp_millis("time_ms"))
        whole = found.withColumn("day", day).repartition("day")
        whole.write.partitionBy("day").parquet(str(aside / "events"))
        put_in_place(aside, to)
        bar.reached(total, 0)
    finally:
        bar.end()
        found.unpersist()
    return Findings(total, first, last, counts, rows, [row.asDict() for row in by_time])


def _extent(found: DataFrame) -> tuple[int, int, int]:
    """The number of events, and the times of the first and the last."""
    (row,) = found.agg(F.count(F.lit(1)), F.min("time_ms"), F.max("time_ms")).collect()
    return row[0], row[1] or 0, row[2] or 0


def _table(table: DataFrame, name: str, path: Path) -> tuple[int, list[dict[str, Any]]]:
    """Writes a table; how many rows of it are of interest, and those that are shown."""
    table.coalesce(1).write.parquet(str(path))
    return shown(name, path)
