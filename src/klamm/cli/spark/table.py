"""`klamm table`: tables that follow topics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

from klamm.cli.options import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_MASTER,
    BootstrapOption,
    MasterOption,
    Output,
    OutputOption,
    new_app,
)
from klamm.cli.output import counted, print_json, say, say_text, table
from klamm.cli.parsing.declared import Argument, Option
from klamm.cli.reach import Reach
from klamm.cli.spark.jobs import (
    DEFAULT_PATIENCE,
    PatienceOption,
    connection,
    job,
    look_first,
    need_spark,
    plain,
    require_pyarrow,
    size_text,
    watcher,
)
from klamm.client.errors import Answered, Unreachable
from klamm.model.errors import KlammError, UsageError
from klamm.pipelines.tables.choices import OnLoss, OnRecreated

if TYPE_CHECKING:
    from klamm.client.registry.schemas import SchemaPlace
    from klamm.pipelines.tables.following import Round, TableFollower, Wishes
    from klamm.pipelines.tables.state import Snapshot

app = new_app("Keep tables up to date with topics: Parquet, Delta or Iceberg.")

_PAUSE_S: Final = 1.0


class Format(StrEnum):
    """The format of a table."""

    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"


class Values(StrEnum):
    """The way values are decoded."""

    RAW = "raw"
    JSON = "json"
    AVRO = "avro"


class From(StrEnum):
    """The beginning of a new table."""

    EARLIEST = "earliest"
    LATEST = "latest"


class PartitionBy(StrEnum):
    """The directories of files."""

    DAY = "day"
    NONE = "none"


class LateColumns(StrEnum):
    """The fate of fields that have no column."""

    ADD = "add"
    IGNORE = "ignore"


PlaceArgument = Annotated[
    str, Argument(metavar="DIR", help="the table: a directory or s3://bucket/path")
]


KeepOption = Annotated[
    float,
    Option(
        "--keep-hours", metavar="HOURS", min=1, help="how long older versions can still be read"
    ),
]
_KEEP_HOURS: Final = 24.0


@app.command()
def follow(
    topic: str,
    to: Annotated[
        str, Option("--to", metavar="DIR", help="the table: a directory or s3://bucket/path")
    ],
    format_: Annotated[Format, Option("--format", help="of a new table")] = Format.PARQUET,
    values: Annotated[
        Values | None,
        Option(help="how values are decoded [json if the first ones are, else raw]"),
    ] = None,
    schema: Annotated[
        str | None,
        Option(
            metavar="DDL|FILE", help="columns of JSON values: 'id bigint, name string', or a file"
        ),
    ] = None,
    late_columns: Annotated[
        LateColumns | None,
        Option(help="fields without a column [add; with --schema: ignore]"),
    ] = None,
    registry: Annotated[
        str | None, Option(metavar="URL", help="the schema registry of Avro values")
    ] = None,
    schemas: Annotated[
        str | None, Option(metavar="DIR", help="schemas of Avro values: NAME-NUMBER.avsc")
    ] = None,
    start: Annotated[From, Option("--from", help="where a new table begins")] = From.EARLIEST,
    partition_by: Annotated[
        PartitionBy, Option(help="directories by the day of the timestamp, or none")
    ] = PartitionBy.DAY,
    once: Annotated[bool, Option("--once", help="take in what is there now, and end")] = False,
    every: Annotated[
        float, Option(metavar="SECONDS", min=0.1, help="the time between two commits")
    ] = 10.0,
    records_max: Annotated[
        int, Option("--max-records", min=1, help="the most records of one commit")
    ] = 5_000_000,
    compact: Annotated[
        bool, Option("--compact/--no-compact", help="make few files of many small ones")
    ] = True,
    keep_hours: KeepOption = _KEEP_HOURS,
    on_loss: Annotated[
        OnLoss, Option(help="when records are gone that the table has not")
    ] = OnLoss.REFUSE,
    on_recreated: Annotated[
        OnRecreated, Option(help="when the topic was deleted and created again")
    ] = OnRecreated.REFUSE,
    output: OutputOption = Output.TEXT,
    patience: PatienceOption = DEFAULT_PATIENCE,
    master: MasterOption = DEFAULT_MASTER,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Keep a table up to date with a topic, each record in it once, until Ctrl-C.

    The offsets are in the table's own commits: stopped or killed anywhere, the same command goes
    on where the table is.

    Example: klamm table follow orders --to tables/orders --format delta --once
    """
    need_spark(master)
    from klamm.pipelines.places.place import check_writable
    from klamm.pipelines.places.remote import place_of
    from klamm.pipelines.tables.following import TableFollower, Wishes
    from klamm.pipelines.tables.formats.opening import table_at

    wishes = Wishes(
        values=str(values) if values else None,
        columns=_columns(schema, values, str(format_)),
        adding=None if late_columns is None else late_columns is LateColumns.ADD,
        by_day=partition_by is PartitionBy.DAY,
        latest=start is From.LATEST,
        records_max=records_max,
        compacting=compact,
        keep_s=keep_hours * 3600,
        on_loss=on_loss,
        on_recreated=on_recreated,
        schemas=_schema_place(values, registry, schemas),
    )
    _check_wishes(wishes)
    place = place_of(to)
    followed = table_at(place, str(format_))
    reach = connection(bootstrap_server, patience_s=patience)
    look_first(reach, topic)
    check_writable(to)
    from klamm.pipelines.tables.cleaning import alone, vacuum

    with alone(place) as is_alone, job(master, f"table {topic}") as spark:
        follower = TableFollower(
            spark=spark,
            connection=reach,
            topic=topic,
            table=followed,
            wishes=wishes,
            progress=watcher(output),
        )
        seen = follower.begin()
        if seen is not None and is_alone:
            vacuum(followed, seen)
        _tell_begin(output, seen, to, str(format_))
        if once:
            _caught_up(follower, output)
        else:
            _go_on(follower, output, every, patience)


def _columns(schema: str | None, values: Values | None, format_: str) -> Any:
    if schema is None:
        return None
    if values not in (None, Values.JSON):
        raise UsageError(f"--schema is for JSON values, and --values says {values}")
    from klamm.pipelines.tables.ddl import columns_of
    from klamm.pipelines.tables.names import name_fault

    found = columns_of(schema)
    for name in found:
        if why := name_fault(format_, name):
            raise UsageError(f"the schema's column {name!r} cannot be: {why}")
    return found


def _schema_place(values: Values | None, registry: str | None, schemas: str | None) -> SchemaPlace:
    from klamm.client.registry.schemas import SchemaPlace

    if registry and schemas:
        raise UsageError("schemas come from --registry or from --schemas, not from both")
    place = SchemaPlace(url=registry or "", directory=schemas or "")
    if values is Values.AVRO and not (registry or schemas):
        raise UsageError("Avro values need their schemas: --registry URL or --schemas DIR")
    if registry or schemas:
        from klamm.client.registry.avro import require_avro

        require_avro()
        place.opened()  # a wrong name is told before anything starts
    return place


def _check_wishes(wishes: Wishes) -> None:
    if wishes.adding is False and wishes.columns is None and wishes.values != "avro":
        raise UsageError("--late-columns ignore needs columns to begin with: name them by --schema")
    if wishes.latest and wishes.values is None and wishes.columns is None:
        raise UsageError("--from latest needs --values: there is no record to judge by yet")


def _tell_begin(output: Output, seen: Snapshot | None, to: str, format_: str) -> None:
    if output is Output.TEXT:
        if seen is None:
            say(f"a new {format_} table: {to}")
        else:
            say(f"{to}: version {seen.version}, {counted(seen.state.records, 'record')}; going on")


def _caught_up(follower: TableFollower, output: Output) -> None:
    rounds = 0
    for done in follower.caught_up():
        _tell(done, output)
        rounds += 1
    if output is Output.TEXT:
        state = follower.state
        if state is None:
            say("the topic is empty: there is no table yet")
        else:
            bad = f", {state.bad:,} with bad values" if state.bad else ""
            say(f"caught up: {counted(state.records, 'record')} in the table{bad}")
    elif not rounds:
        print_json({"records": 0, "lag": 0, "version": None})


def _go_on(follower: TableFollower, output: Output, every: float, patience: float) -> None:
    """Rounds for ever; brokers and stores that do not answer are waited for, for a while."""
    from klamm.pipelines.jobs.writing import StoreAway

    silent_since: float | None = None
    was_away = False
    while True:
        began = time.monotonic()
        try:
            if was_away:
                follower.begin()  # which does what a commit without an answer has left undone
                was_away = False
            done = follower.round()
            silent_since = None
        except (Unreachable, Answered, StoreAway) as fault:
            if isinstance(fault, Answered) and not fault.is_retriable:
                raise
            was_away |= isinstance(fault, StoreAway)
            silent_since = silent_since or time.monotonic()
            if time.monotonic() - silent_since >= patience:
                raise
            say(f"{fault}; trying again", to=_stderr())
            time.sleep(min(_PAUSE_S, every))
            continue
        if done is not None:
            _tell(done, output)
            if done.lag:
                continue
        time.sleep(max(every - (time.monotonic() - began), 0))


def _stderr() -> Any:
    import sys

    return sys.stderr


def _tell(done: Round, output: Output) -> None:
    if output is Output.JSON:
        print_json(plain(asdict(done)))
        return
    for line in _lines(done):
        say(line)


def _lines(done: Round) -> Iterator[str]:
    yield from (f"  note: {note}" for note in done.notes)
    if done.added:
        yield f"  new columns: {', '.join(done.added)}"
    bad = f", {done.bad:,} with bad values" if done.bad else ""
    packed = f"; {done.compacted} fewer by compaction" if done.compacted else ""
    yield (
        f"{datetime.now(UTC):%H:%M:%S}  version {done.version}: "
        f"+{counted(done.records, 'record')}{bad}, {counted(done.files, 'file')}{packed}, "
        f"{done.seconds:.1f} s; lag {done.lag:,}"
    )


@app.command()
def status(
    directory: PlaceArgument,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Show how far a table is: records, bad values, files, and the lag of each partition.

    Example: klamm table status tables/orders
    """
    require_pyarrow()
    from klamm.pipelines.places.place import require_place
    from klamm.pipelines.places.remote import place_of
    from klamm.pipelines.tables.formats.opening import existing

    place = place_of(directory)
    require_place(place)
    found, seen = existing(place)
    lags, why = _lags(seen, bootstrap_server)
    state = seen.state
    if output is Output.JSON:
        body = state.to_json() | {"format": found.format, "version": seen.version}
        body |= {"files": len(seen.files), "bytes": seen.bytes, "columns": list(seen.columns)}
        print_json(plain(body | {"lag": lags, "lag_unknown": why}))
        return
    say(f"{found.format} table of {state.topic} ({state.topic_id}), version {seen.version}")
    say(
        f"{counted(state.records, 'record')} in {counted(len(seen.files), 'file')}, "
        f"{size_text(seen.bytes)}; {len(seen.columns)} columns of {state.values} values"
    )
    for count, what in (
        (state.bad, "records with a bad value: look at kafka_bad_value and kafka_bad_reason"),
        (state.ignored, "records with fields that have no column"),
        (state.lost, "offsets were gone before they were read"),
    ):
        if count:
            say(f"{count:>8,}  {what}")
    rows = [(p, o, "?" if lags is None else lags.get(p, "gone")) for p, o in state.offsets.items()]
    say_text(table(("partition", "next offset", "lag"), rows))
    if why:
        say(f"lag unknown: {why}")


def _lags(seen: Snapshot, bootstrap: Reach | str) -> tuple[dict[int, int] | None, str | None]:
    """The lag of each partition; or why nobody knows."""
    from klamm.client.blocking.lookup import Lookup
    from klamm.pipelines.tables.following import topic_now
    from klamm.pipelines.tables.planning import lag_of

    state = seen.state
    try:
        now, _ = topic_now(Lookup(connection(bootstrap, patience_s=5)), state.topic)
    except KlammError as fault:
        return None, str(fault)
    if now.topic_id != state.topic_id or now.cluster != state.cluster:
        return None, f"{state.topic} is another topic now, of id {now.topic_id}"
    return lag_of(state, now), None


@app.command()
def files(directory: PlaceArgument, output: OutputOption = Output.TEXT) -> None:
    """List the data files that are in a table now.

    Example: klamm table files tables/orders
    """
    require_pyarrow()
    from klamm.pipelines.places.place import require_place
    from klamm.pipelines.places.remote import place_of
    from klamm.pipelines.tables.formats.opening import existing

    place = place_of(directory)
    require_place(place)
    _, seen = existing(place)
    paths = sorted(str(place / file.path) for file in seen.files)
    if output is Output.JSON:
        print_json(paths)
    else:
        say(*paths)


@app.command()
def compact(
    directory: PlaceArgument,
    output: OutputOption = Output.TEXT,
    master: MasterOption = DEFAULT_MASTER,
) -> None:
    """Make few large files of many small ones; the records stay the same.

    Example: klamm table compact tables/orders
    """
    need_spark(master)
    from klamm.pipelines.places.place import require_place
    from klamm.pipelines.places.remote import place_of
    from klamm.pipelines.tables.cleaning import alone
    from klamm.pipelines.tables.compacting import compact as squeeze
    from klamm.pipelines.tables.formats.opening import existing

    place = place_of(directory)
    require_place(place)
    existing(place)
    with alone(place), job(master, "compact") as spark:
        found, seen = existing(place)
        found.recover(seen)
        after = squeeze(spark, found, seen, watcher(output))
    counts = {"before": len(seen.files), "after": len(after.files), "version": after.version}
    if output is Output.JSON:
        print_json(counts)
    else:
        say(f"{counted(counts['before'], 'file')} became {counts['after']:,}")


@app.command()
def vacuum(
    directory: PlaceArgument,
    keep_hours: KeepOption = _KEEP_HOURS,
    output: OutputOption = Output.TEXT,
) -> None:
    """Remove what broken-off rounds left behind, and old versions; not while somebody follows.

    Example: klamm table vacuum tables/orders --keep-hours 48
    """
    require_pyarrow()
    from klamm.pipelines.places.place import require_place
    from klamm.pipelines.places.remote import place_of
    from klamm.pipelines.tables.cleaning import alone
    from klamm.pipelines.tables.cleaning import vacuum as clean
    from klamm.pipelines.tables.formats.opening import existing

    place = place_of(directory)
    require_place(place)
    existing(place)
    with alone(place):
        found, seen = existing(place)
        found.recover(seen)
        count, size = clean(found, seen)
        old = found.forget(keep_hours * 3600)
    if output is Output.JSON:
        print_json({"files": count, "bytes": size, "old": old})
    else:
        say(f"removed {counted(count, 'file')}, {size_text(size)}; and {old} of old versions")
