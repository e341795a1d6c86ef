"""Judging the controllers by what they wrote down: every transition, in the order they decided it.

The ledger's order is (controller epoch, sequence); clocks only measure. Legal moves come from the
controller's own tables, so that code and audit cannot drift apart. Each table is a transform of the
events; `run` reads, writes and sums up. Chains are followed within one epoch: a new controller
forms its own view of what it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from klamm.controller.partition_states import MOVES as PARTITION_MOVES
from klamm.controller.replica_states import MOVES as REPLICA_MOVES
from klamm.controller.states import PartitionState, ReplicaState

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

LEDGER: Final = (
    "time_ms bigint, controller_epoch int, sequence bigint, cause string, topic string, "
    "subject string, before string, after string, why string"
)
_STATES: Final = {
    "partition": [str(state) for state in PartitionState],
    "replica": [str(state) for state in ReplicaState],
}
_DELETING: Final = {
    "replica": [str(ReplicaState.DELETION_STARTED), str(ReplicaState.DELETION_INELIGIBLE)],
    "topic": ["queued for deletion", "halted"],
}
_REPLICA: Final = r"^(.+)-(\d+) on broker (\d+)$"
_PARTITION: Final = r"^(.+)-(\d+)$"


def events(ledger: DataFrame) -> DataFrame:
    """The ledger with its subjects taken apart; what two brokers both kept counts once."""
    subject = F.col("subject")
    entity = (
        F.when(subject.rlike(_REPLICA), "replica")
        .when(subject.startswith("topic "), "topic")
        .when(subject.startswith("broker "), "broker")
        .when(subject.startswith("controller "), "controller")
        .when(subject.rlike(_PARTITION) & (F.col("topic") != ""), "partition")
        .otherwise("other")
    )
    partition = F.when(entity == "replica", F.regexp_extract(subject, _REPLICA, 2)).when(
        entity == "partition", F.regexp_extract(subject, _PARTITION, 2)
    )
    broker = F.when(entity == "replica", F.regexp_extract(subject, _REPLICA, 3)).when(
        entity.isin("broker", "controller"), F.split_part(subject, F.lit(" "), F.lit(2))
    )
    return ledger.dropDuplicates(["controller_epoch", "sequence"]).select(
        "time_ms",
        "controller_epoch",
        "sequence",
        "cause",
        "topic",
        "subject",
        entity.alias("entity"),
        partition.cast("int").alias("partition"),
        broker.cast("int").alias("broker"),
        F.col("before").alias("from_state"),
        F.col("after").alias("to_state"),
        "why",
    )


def _is_move(entity: str) -> Column:
    """An event of the state machine, not of the in-sync set or of the assignment."""
    states = _STATES[entity]
    of_states = F.col("from_state").isin(states) | F.col("to_state").isin(states)
    return (F.col("entity") == entity) & of_states


def moves(found: DataFrame) -> DataFrame:
    """The transitions of the two state machines."""
    return found.filter(_is_move("partition") | _is_move("replica")).select(*found.columns)


def legal(spark: SparkSession) -> DataFrame:
    """Every legal move, from the controller's own tables."""
    rows = [("partition", str(a), str(b)) for a, b in PARTITION_MOVES]
    rows += [("replica", str(a), str(b)) for a, b in REPLICA_MOVES]
    return spark.createDataFrame(rows, "entity string, from_state string, to_state string")


def illegal(found: DataFrame) -> DataFrame:
    """Moves that no table allows."""
    allowed = F.broadcast(legal(found.sparkSession))
    keys = ["entity", "from_state", "to_state"]
    return moves(found).join(allowed, on=keys, how="left_anti").select(*found.columns)


def _in_order(*keys: str) -> Any:
    return Window.partitionBy(*keys).orderBy("controller_epoch", "sequence")


def broken_chains(found: DataFrame) -> DataFrame:
    """Moves that begin elsewhere than the one before ended: a transition was not written down."""
    previous = F.lag("to_state").over(_in_order("subject", "controller_epoch"))
    return (
        moves(found)
        .withColumn("expected", previous)
        .filter(F.col("expected").isNotNull() & (F.col("expected") != F.col("from_state")))
        .select(*found.columns, "expected")
    )


def lost(found: DataFrame) -> DataFrame:
    """Numbers missing from an epoch's sequence."""
    previous = F.lag("sequence").over(Window.partitionBy("controller_epoch").orderBy("sequence"))
    gap = F.col("sequence") - F.col("previous") - 1
    return (
        found.withColumn("previous", previous)
        .filter(gap > 0)
        .select(
            "controller_epoch",
            (F.col("previous") + 1).alias("first"),
            (F.col("sequence") - 1).alias("last"),
            gap.alias("count"),
            "time_ms",
        )
    )


def timeline(found: DataFrame) -> DataFrame:
    """How long each topic, partition and replica was in each state."""
    order = _in_order("subject")
    tracked = F.col("entity").isin("topic", "partition", "replica", "broker")
    state_change = _is_move("partition") | _is_move("replica")
    state_change |= F.col("entity").isin("topic", "broker")
    return (
        found.filter(tracked & state_change)
        .withColumn("until_ms", F.lead("time_ms").over(order))
        .select(
            "subject",
            "entity",
            "topic",
            "partition",
            "broker",
            F.col("to_state").alias("state"),
            F.col("time_ms").alias("since_ms"),
            "until_ms",
        )
    )


def latency(found: DataFrame) -> DataFrame:
    """How long moves took: from the last transition of the same thing to this one."""
    previous = F.lag("time_ms").over(_in_order("subject", "controller_epoch"))
    tracked = _is_move("partition") | _is_move("replica") | (F.col("entity") == "topic")
    taken = F.col("time_ms") - previous
    marks = F.percentile_approx("taken_ms", [0.5, 0.95, 0.99], 10_000)
    return (
        found.filter(tracked)
        .withColumn("taken_ms", taken)
        .filter("taken_ms IS NOT NULL")
        .groupBy("entity", "from_state", "to_state")
        .agg(
            F.count(F.lit(1)).alias("count"),
            marks.alias("marks"),
            F.max("taken_ms").alias("max_ms"),
        )
        .select(
            "entity",
            "from_state",
            "to_state",
            "count",
            F.col("marks")[0].alias("p50_ms"),
            F.col("marks")[1].alias("p95_ms"),
            F.col("marks")[2].alias("p99_ms"),
            "max_ms",
        )
    )


def _latest(found: DataFrame, *columns: str) -> DataFrame:
    place = F.struct("controller_epoch", "sequence")
    picked = [F.max_by(c, place).alias(c) for c in columns]
    return found.groupBy("subject").agg(*picked)


def stuck(found: DataFrame, *, now_ms: int, limit_ms: int = 60_000) -> DataFrame:
    """Deletions that do not end, and which broker they wait for."""
    columns = ("entity", "topic", "partition", "broker", "to_state", "time_ms", "why")
    deleting = (F.col("entity") == "replica") & F.col("to_state").isin(_DELETING["replica"])
    deleting |= (F.col("entity") == "topic") & F.col("to_state").isin(_DELETING["topic"])
    tracked = found.filter(_is_move("replica") | (F.col("entity") == "topic"))
    late = _latest(tracked, *columns).filter(deleting & (now_ms - F.col("time_ms") > limit_ms))
    down = (
        _latest(found.filter("entity = 'broker'"), "broker", "to_state")
        .filter("to_state <> 'live'")
        .select(F.col("broker").alias("down"))
    )
    waits = F.when(
        F.col("down").isNotNull(), F.format_string("waits for broker %d", F.col("down"))
    ).otherwise(F.col("why"))
    return late.join(down, on=late.broker == down.down, how="left").select(
        "subject",
        "entity",
        "topic",
        "partition",
        "broker",
        F.col("to_state").alias("state"),
        F.col("time_ms").alias("since_ms"),
        waits.alias("waits_for"),
    )


def epochs(found: DataFrame) -> DataFrame:
    """Each controller's reign, the quiet before it, and what its predecessors still wrote in it."""
    began = F.min(F.when(F.col("entity") == "controller", F.col("time_ms")))
    reigns = found.groupBy("controller_epoch").agg(
        F.max(F.when(F.col("entity") == "controller", F.col("broker"))).alias("controller"),
        F.coalesce(began, F.min("time_ms")).alias("began_ms"),
        F.max("time_ms").alias("last_ms"),
        F.count(F.lit(1)).alias("events"),
    )
    order = Window.orderBy("controller_epoch")
    return (
        reigns.withColumn("quiet_ms", F.col("began_ms") - F.lag("last_ms").over(order))
        .withColumn("next_ms", F.lead("began_ms").over(order))
        .withColumn("overtime_ms", F.greatest(F.col("last_ms") - F.col("next_ms"), F.lit(0)))
        .select(
            "controller_epoch",
            "controller",
            "began_ms",
            "last_ms",
            "events",
            "quiet_ms",
            F.coalesce("overtime_ms", F.lit(0)).alias("overtime_ms"),
        )
    )


@dataclass(frozen=True, slots=True)
class Audit:
    """The findings, and the rows that the report shows."""

    events: int
    first_ms: int
    last_ms: int
    counts: Mapping[str, int]
    rows: Mapping[str, list[dict[str, Any]]]
    by_time: list[dict[str, Any]]

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong."""
        return not any(self.counts[name] for name in ("illegal", "broken_chains", "lost", "stuck"))


_ROWS_MAX: Final = 500
# The report shows the first rows of each table in this order; of the timeline the newest.
_ORDER: Final[Mapping[str, tuple[str, ...]]] = {
    "illegal": ("controller_epoch", "sequence"),
    "broken_chains": ("controller_epoch", "sequence"),
    "lost": ("controller_epoch", "first"),
    "stuck": ("since_ms",),
    "latency": ("entity", "from_state", "to_state"),
    "epochs": ("controller_epoch",),
    "timeline": ("since_ms",),
}


def run(
    spark: SparkSession,
    ledger: str,
    tables: Path | None,
    *,
    now_ms: int,
    since_ms: int = 0,
    stuck_after_ms: int = 60_000,
) -> Audit:
    """Reads JSON lines, judges them, and writes the tables as Parquet."""
    lines = spark.read.schema(LEDGER).json(ledger).filter(F.col("time_ms") >= since_ms)
    found = events(lines).cache()
    transforms: dict[str, Callable[[DataFrame], DataFrame]] = {
        "illegal": illegal,
        "broken_chains": broken_chains,
        "lost": lost,
        "stuck": lambda f: stuck(f, now_ms=now_ms, limit_ms=stuck_after_ms),
        "latency": latency,
        "epochs": epochs,
        "timeline": timeline,
    }
    counts, rows = {}, {}
    for name, transform in transforms.items():
        table = transform(found)
        if tables is not None:
            table.coalesce(1).write.mode("overwrite").parquet(str(tables / name))
            table = spark.read.parquet(str(tables / name))
        order = table.orderBy(*_ORDER[name], ascending=name != "timeline")
        some = order.limit(_ROWS_MAX).collect()
        counts[name] = len(some) if len(some) < _ROWS_MAX else table.count()
        rows[name] = [row.asDict() for row in some]
    if tables is not None:
        found.coalesce(1).write.mode("overwrite").parquet(str(tables / "events"))
    total, first, last = found.agg(F.count(F.lit(1)), F.min("time_ms"), F.max("time_ms")).collect()[
        0
    ]
    by_time = _by_time(found, first or 0, last or 0)
    found.unpersist()
    return Audit(total, first or 0, last or 0, counts, rows, by_time)


def _by_time(found: DataFrame, first: int, last: int) -> list[dict[str, Any]]:
    """How many events of each kind fell into each of 60 spans of time."""
    span = max((last - first) // 60 + 1, 1)
    place = F.floor((F.col("time_ms") - first) / span).cast("int")
    counted = found.groupBy(place.alias("span"), "entity").count().orderBy("span", "entity")
    return [row.asDict() for row in counted.collect()]
