"""The tables of the audit: each is a transform of the controllers' events.

The ledger's order is (controller epoch, sequence); clocks only measure. Legal moves come from the
controller's own tables, so that code and audit cannot drift apart. A thing is known by its name and
by its topic's id: a topic that was created again is another one.

The first line of a term names the edition of its ledger. The first edition kept no chain of topics
and none over two terms, so of its terms less is concluded. The same rules, for a ledger without
Spark, are in `klamm.controller.states.judging`.

Of what is older than the horizon, compaction may have left the last state of each thing and taken
the way there. So nothing is concluded from what is missing behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from klamm.controller.states import EDITION, FOUND, PartitionState, ReplicaState, TopicState
from klamm.controller.states.tables import MACHINES, PARTITIONS, REPLICAS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LEDGER: Final = (
    "time_ms bigint, controller_epoch int, sequence bigint, controller_id int, cause string, "
    "topic string, topic_id string, subject string, before string, after string, why string, "
    "edition int"
)
_WORDS: Final = {machine.entity: sorted(machine.words()) for machine in MACHINES}
_DELETING: Final = {
    "replica": [str(ReplicaState.DELETION_STARTED), str(ReplicaState.DELETION_INELIGIBLE)],
    "topic": [str(TopicState.QUEUED), str(TopicState.HALTED), str(TopicState.DELETING)],
}
# States in which a topic is worked on, and what is called a creation in `durations`.
BUSY: Final = [
    str(state)
    for state in (
        TopicState.GROWING,
        TopicState.IMPORTING,
        TopicState.QUEUED,
        TopicState.DELETING,
        TopicState.HALTED,
    )
]
CREATION: Final = "created"
NEW: Final = str(PartitionState.NEW)
ONLINE: Final = str(PartitionState.ONLINE)
_MOVE: Final = ("entity", "from_state", "to_state")
_REPLICA: Final = REPLICAS.subject
_PARTITION: Final = PARTITIONS.subject


def events(ledger: DataFrame, all_of_it: DataFrame | None = None) -> DataFrame:
    """The ledger with its subjects taken apart; what came twice counts once.

    Of a ledger that was cut, `all_of_it` may still have the first lines of its terms.
    """
    subject = F.col("subject")
    entity = (
        F.when(subject.rlike(_REPLICA), "replica")
        .when(subject.startswith("topic "), "topic")
        .when(subject.startswith("broker "), "broker")
        .when(subject.startswith("controller "), "controller")
        .when(subject.startswith("archive of "), "archive")
        .when(subject.rlike(_PARTITION) & (F.col("topic") != ""), "partition")
        .otherwise("other")
    )
    partition = F.when(entity == "replica", F.regexp_extract(subject, _REPLICA, 2)).when(
        entity == "partition", F.regexp_extract(subject, _PARTITION, 2)
    )
    broker = F.when(entity == "replica", F.regexp_extract(subject, _REPLICA, 3)).when(
        entity.isin("broker", "controller"), F.split_part(subject, F.lit(" "), F.lit(2))
    )
    # Whatever else is in a file or in a topic is no event.
    known = ("time_ms", "controller_epoch", "sequence", "subject")
    whole = ledger.dropna(subset=list(known)).dropDuplicates(["controller_epoch", "sequence"])
    terms = ledger if all_of_it is None else all_of_it
    named = terms.filter("edition IS NOT NULL").groupBy("controller_epoch").agg(_edition())
    known_terms = whole.drop("edition").join(F.broadcast(named), on="controller_epoch", how="left")
    return known_terms.select(
        "time_ms",
        "controller_epoch",
        "sequence",
        "controller_id",
        "cause",
        "topic",
        "topic_id",
        "subject",
        entity.alias("entity"),
        partition.cast("int").alias("partition"),
        broker.cast("int").alias("broker"),
        F.col("before").alias("from_state"),
        F.col("after").alias("to_state"),
        "why",
        F.coalesce("edition", F.lit(1)).alias("edition"),
    )


def _edition() -> Column:
    return F.max("edition").alias("edition")


def since(ledger: DataFrame, since_ms: int) -> DataFrame:
    """The decisions from a time on, in the ledger's order: a clock may have been set back."""
    place = F.struct("controller_epoch", "sequence")
    first = ledger.filter(F.col("time_ms") >= since_ms).agg(F.min(place).alias("first"))
    return ledger.crossJoin(F.broadcast(first)).filter(place >= F.col("first")).drop("first")


def _is_move(entity: str) -> Column:
    """An event of the state machine, not of the in-sync set or of the assignment."""
    states = ", ".join(f"'{state}'" for state in _WORDS[entity])
    return F.expr(f"entity = '{entity}' AND (from_state IN ({states}) OR to_state IN ({states}))")


def moves(found: DataFrame) -> DataFrame:
    """The transitions of the state machines; of topics, where their ledger keeps them."""
    topics = _is_move("topic") & (F.col("edition") >= EDITION)
    return found.filter(_is_move("partition") | _is_move("replica") | topics)


def _legal_moves() -> list[tuple[str, str, str]]:
    """Every legal move, from the controller's own tables."""
    return [(m.entity, before, after) for m in MACHINES for before, after in sorted(m.legal())]


def _is_legal() -> Column:
    return F.expr(f"({', '.join(_MOVE)}) IN ({', '.join(map(str, _legal_moves()))})")


def illegal(found: DataFrame) -> DataFrame:
    """Moves that no table allows."""
    return moves(found).filter(~_is_legal())


def made(found: DataFrame) -> DataFrame:
    """The number of times each transition was made, legal or not."""
    possible = found.sparkSession.createDataFrame(_legal_moves(), list(_MOVE))
    return (
        moves(found)
        .select(*_MOVE, F.lit(1).alias("made"))
        .unionByName(possible.withColumn("made", F.lit(0)))
        .groupBy(*_MOVE)
        .agg(F.sum("made").alias("count"))
        .select(*_MOVE, "count", _is_legal().alias("legal"))
    )


def _in_order(*keys: str) -> Any:
    return Window.partitionBy(*keys).orderBy("controller_epoch", "sequence")


def broken_chains(found: DataFrame, *, horizon_ms: int = 0) -> DataFrame:
    """Moves that begin elsewhere than the one before ended: a transition was not written down.

    A new controller knows what is stored, not what was written down. It begins where it found a
    thing, and of what is as it should be it says nothing.
    """
    order = _in_order("subject", "topic_id")
    is_same_term = F.col("previous_epoch") == F.col("controller_epoch")
    never, unsaid = _by_entity("never"), _by_entity("unsaid")
    is_whole = F.col("edition") >= EDITION
    ends_unseen = F.col("entity").isin([m.entity for m in MACHINES if m.ends_unseen])
    is_birth = F.col("from_state") == never
    is_born_twice = is_birth & (F.col("expected") != never) & ~(is_whole & ends_unseen)
    is_unfound = is_whole & ~is_birth & ~F.col("from_state").isin(FOUND)
    is_unfound &= F.col("from_state") != unsaid
    differs = F.col("expected") != F.col("from_state")
    return (
        moves(found)
        .withColumns(
            {
                "expected": F.lag("to_state").over(order),
                "previous_epoch": F.lag("controller_epoch").over(order),
                "previous_ms": F.lag("time_ms").over(order),
            }
        )
        .filter(F.col("expected").isNotNull() & (F.col("previous_ms") >= horizon_ms))
        .filter((is_same_term & differs) | (~is_same_term & (is_born_twice | is_unfound)))
        .withColumn(
            "expected", F.when(~is_same_term & is_unfound, unsaid).otherwise(F.col("expected"))
        )
        .select(*found.columns, "expected")
    )


def _by_entity(name: str) -> Column:
    """A state of the machine to which an event belongs."""
    cases = " ".join(f"WHEN '{m.entity}' THEN '{getattr(m, name)}'" for m in MACHINES)
    return F.expr(f"CASE entity {cases} END")


def lost(found: DataFrame, *, horizon_ms: int = 0) -> DataFrame:
    """Numbers missing from an epoch's sequence."""
    inside = Window.partitionBy("controller_epoch").orderBy("sequence")
    columns = ("controller_epoch", "previous", "sequence", "time_ms", "previous_ms")
    before = {
        "previous": F.lag("sequence").over(inside),
        "previous_ms": F.lag("time_ms").over(inside),
    }
    within = found.withColumns(before).select(*columns)
    # An epoch begins with number 1; that is known of all but the oldest.
    terms = Window.orderBy("controller_epoch")
    at_the_start = (
        found.groupBy("controller_epoch")
        .agg(
            F.min("sequence").alias("sequence"),
            F.min("time_ms").alias("time_ms"),
            F.max("time_ms").alias("last_ms"),
        )
        .withColumns(
            {"previous": F.lit(0).cast("bigint"), "previous_ms": F.lag("last_ms").over(terms)}
        )
        .select(*columns)
    )
    gap = F.col("sequence") - F.col("previous") - 1
    return (
        within.unionByName(at_the_start)
        .filter((gap > 0) & (F.col("previous_ms") >= horizon_ms))
        .select(
            "controller_epoch",
            (F.col("previous") + 1).alias("first"),
            (F.col("sequence") - 1).alias("last"),
            gap.alias("count"),
            "time_ms",
        )
    )


def timeline(found: DataFrame) -> DataFrame:
    """The time that each topic, partition and replica spent in each state."""
    order = _in_order("subject", "topic_id")
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
    """The duration of transitions: from the last one of the same thing to this one.

    For each move in all, where topic and epoch are null, and for each topic and epoch.
    """
    previous = F.lag("time_ms").over(_in_order("subject", "topic_id", "controller_epoch"))
    tracked = _is_move("partition") | _is_move("replica") | (F.col("entity") == "topic")
    marks = F.percentile_approx("taken_ms", [0.5, 0.95, 0.99], 10_000)
    each = [*_MOVE, "topic", "controller_epoch"]
    return (
        found.filter(tracked)
        .withColumn("taken_ms", F.col("time_ms") - previous)
        .filter("taken_ms IS NOT NULL")
        .groupingSets([_MOVE, each], *each)
        .agg(
            F.count(F.lit(1)).alias("count"),
            marks.alias("marks"),
            F.max("taken_ms").alias("max_ms"),
        )
        .select(
            *each,
            "count",
            F.col("marks")[0].alias("p50_ms"),
            F.col("marks")[1].alias("p95_ms"),
            F.col("marks")[2].alias("p99_ms"),
            "max_ms",
        )
    )


def durations(found: DataFrame) -> DataFrame:
    """The time that work on a topic took, from its cause to the last confirmation.

    A creation ends with the last partition and replica that came online for it; growing, filling
    and deleting end when the topic rests again, or is gone.
    """
    topics = moves(found).filter("entity = 'topic'")
    was_busy, is_busy = F.col("from_state").isin(BUSY), F.col("to_state").isin(BUSY)
    before = F.lag(F.struct("time_ms", "to_state", is_busy.alias("busy"))).over(
        _in_order("subject", "topic_id")
    )
    limits = topics.filter(was_busy != is_busy).withColumn("before", before)
    ended = limits.filter(was_busy & ~is_busy & F.col("before.busy")).select(
        F.col("before.to_state").alias("what"),
        "subject",
        "topic",
        "topic_id",
        F.col("before.time_ms").alias("began_ms"),
        F.col("time_ms").alias("ended_ms"),
    )
    births = topics.filter(F.col("from_state") == str(TopicState.ABSENT)).select(
        "subject",
        "topic",
        "topic_id",
        "controller_epoch",
        "cause",
        F.col("time_ms").alias("began_ms"),
    )
    same = ["topic", "topic_id", "controller_epoch", "cause"]
    lives = found.filter((F.col("from_state") == NEW) & (F.col("to_state") == ONLINE))
    online = lives.groupBy(*same).agg(F.max("time_ms").alias("ended_ms"))
    made = births.join(online, on=same, how="inner").select(
        F.lit(CREATION).alias("what"), "subject", "topic", "topic_id", "began_ms", "ended_ms"
    )
    return made.unionByName(ended).select(
        "what",
        "subject",
        "topic",
        "topic_id",
        "began_ms",
        "ended_ms",
        (F.col("ended_ms") - F.col("began_ms")).alias("took_ms"),
    )


def _latest(found: DataFrame, *columns: str) -> DataFrame:
    place = F.struct("controller_epoch", "sequence")
    picked = [F.max_by(c, place).alias(c) for c in columns]
    return found.groupBy("subject").agg(*picked)


def stuck(found: DataFrame, *, now_ms: int, limit_ms: int = 60_000) -> DataFrame:
    """Deletions that do not end, and which brokers they wait for."""
    columns = ("entity", "topic", "partition", "broker", "to_state", "time_ms", "why")
    deleting = (F.col("entity") == "replica") & F.col("to_state").isin(_DELETING["replica"])
    deleting |= (F.col("entity") == "topic") & F.col("to_state").isin(_DELETING["topic"])
    tracked = found.filter(_is_move("replica") | (F.col("entity") == "topic"))
    latest = _latest(tracked, *columns)
    late = latest.filter(deleting & (now_ms - F.col("time_ms") > limit_ms))
    said = F.coalesce(F.when(F.col("why") != "", F.concat(F.lit(": "), F.col("why"))), F.lit(""))
    waits = F.concat(F.lit("waits for broker "), F.coalesce(F.col("broker").cast("string"), "all"))
    return late.join(_awaited(latest, found), on="topic", how="left").select(
        "subject",
        "entity",
        "topic",
        "partition",
        "broker",
        F.col("to_state").alias("state"),
        F.col("time_ms").alias("since_ms"),
        F.coalesce(F.concat(waits, said), F.col("why")).alias("waits_for"),
    )


def _awaited(latest: DataFrame, found: DataFrame) -> DataFrame:
    """The brokers that a topic's deletion waits for: those asked, and those that are away."""
    down = (
        _latest(found.filter("entity = 'broker'"), "broker", "to_state")
        .filter("to_state <> 'live'")
        .select("broker", F.lit(True).alias("is_down"))
    )
    state = F.col("to_state")
    is_there = ~state.isin(str(ReplicaState.DELETION_SUCCESSFUL), str(ReplicaState.NON_EXISTENT))
    is_asked = state.isin(_DELETING["replica"]) | F.col("is_down")
    return (
        latest.filter((F.col("entity") == "replica") & is_there)
        .join(down, on="broker", how="left")
        .filter(is_asked)
        .groupBy("topic")
        .agg(F.array_join(F.array_sort(F.collect_set("broker")), ", ").alias("all"))
        .select("topic", "all")
    )


def epochs(found: DataFrame) -> DataFrame:
    """Each controller's reign, the quiet before it, what it wrote after its time, and how many
    elections before it left no word at all."""
    began = F.min(F.when(F.col("entity") == "controller", F.col("time_ms")))
    reigns = found.groupBy("controller_epoch").agg(
        F.max(
            F.coalesce("controller_id", F.when(F.col("entity") == "controller", F.col("broker")))
        ).alias("controller"),
        F.coalesce(began, F.min("time_ms")).alias("began_ms"),
        F.max("time_ms").alias("last_ms"),
        F.count(F.lit(1)).alias("events"),
    )
    order = Window.orderBy("controller_epoch")
    terms = reigns.withColumns(
        {
            "unheard": F.col("controller_epoch") - F.lag("controller_epoch").over(order) - 1,
            "quiet_ms": F.col("began_ms") - F.lag("last_ms").over(order),
            "next_ms": F.lead("began_ms").over(order),
        }
    )
    overtime = F.greatest(F.col("last_ms") - F.col("next_ms"), F.lit(0))
    late = (
        found.select("controller_epoch", "time_ms")
        .join(terms.select("controller_epoch", "next_ms"), on="controller_epoch", how="inner")
        .filter("time_ms > next_ms")
        .groupBy("controller_epoch")
        .agg(F.count(F.lit(1)).alias("late"))
    )
    return terms.join(late, on="controller_epoch", how="left").select(
        "controller_epoch",
        "controller",
        "began_ms",
        "last_ms",
        "events",
        "quiet_ms",
        F.coalesce(overtime, F.lit(0)).alias("overtime_ms"),
        F.coalesce("late", F.lit(0)).alias("late"),
        F.coalesce("unheard", F.lit(0)).alias("unheard"),
    )


def by_time(found: DataFrame, first: int, last: int, spans: int) -> DataFrame:
    """The number of events of each kind in each span of time."""
    span = max((last - first) // spans + 1, 1)
    place = F.floor((F.col("time_ms") - first) / span).cast("int")
    return (
        found.groupBy(place.alias("span"), "entity")
        .agg(F.count(F.lit(1)).alias("count"))
        .select("span", "entity", "count")
    )
