"""`klamm demo`: a guided tour of about two minutes.

A cluster starts; topics are created and filled; Spark aggregates a stream while a broker is stopped
and started; a topic grows; one is archived, deleted and restored with its proof; the audit of it
all is written. Everything is real and nothing is prepared: the numbers printed are those that were
seen.
"""

from __future__ import annotations

import shlex
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer
from rich.console import Console

from klamm.cli.asking import run
from klamm.cli.invocation import this_command
from klamm.cli.options import Output, OutputOption, new_app
from klamm.cli.output import print_json
from klamm.cli.spark.jobs import (
    connection,
    job,
    make_directory,
    need_spark,
    plain,
    size_text,
    watcher,
)
from klamm.model.errors import KlammError
from klamm.model.text import printable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from klamm.cluster import Cluster

app = new_app("Take a guided tour of about two minutes.")

_MASTER = "local[2]"
_CUSTOMERS = 50
_ORDERS = "orders"
_AT_ONCE = 20_000
_PATIENCE_S = 10.0
_COUNTED = ("customer", "count(1)", "sum(size)")


@app.command()
def demo(
    to: Annotated[
        Path, typer.Option("--to", metavar="DIR", help="the directory for archive and report")
    ] = Path("klamm-demo"),
    records: Annotated[
        int, typer.Option(help="how many records to start with", min=1000)
    ] = 200_000,
    output: OutputOption = Output.TEXT,
) -> None:
    """Take a guided tour: a cluster, a stream, a stopped broker, an archive, an audit.

    Example: klamm demo
    """
    from klamm.cluster import Cluster

    need_spark(_MASTER)
    with gone_unless_whole(to):
        make_directory(to)
        tour = _Tour(to, records, output)
        tour.say("Spark starts, and a cluster of three brokers")
        with (
            tempfile.TemporaryDirectory(prefix="klamm-demo-") as scratch,
            job(_MASTER, "klamm demo") as spark,
            Cluster(3, settings={"klamm.ledger.topic.enable": "true"}) as cluster,
        ):
            tour.note(f"the cluster serves on {cluster.bootstrap_servers}")
            tour.note(f"broker {cluster.controller_id} is the controller")
            tour.fill(cluster)
            tour.stream(spark, cluster, Path(scratch))
            tour.grow(cluster)
            tour.archive(spark, cluster)
            tour.audit(spark, cluster)
        tour.leave()
    if output is Output.JSON:
        print_json(plain(tour.facts))


@contextmanager
def gone_unless_whole(directory: Path) -> Iterator[None]:
    """A tour that is broken off leaves nothing where there was nothing before."""
    was_there = directory.exists()
    try:
        yield
    except BaseException:
        if not was_there:
            shutil.rmtree(directory, ignore_errors=True)
        raise


class _Tour:
    """The steps, and what was seen in them."""

    def __init__(self, to: Path, records: int, output: Output) -> None:
        self._to = to.absolute()
        self._records = records
        self._output = output
        self._console = Console(quiet=output is Output.JSON)
        self._began = time.monotonic()
        self._step = 0
        self._written = self._written_bytes = 0
        self.facts: dict[str, Any] = {}

    def say(self, text: str) -> None:
        self._step += 1
        seconds = time.monotonic() - self._began
        self._console.print(f"\n[bold]{self._step}. {text}[/bold]  [dim]({seconds:.0f} s)[/dim]")

    def note(self, text: str) -> None:
        self._console.print(f"   {printable(text)}", markup=False, highlight=False, soft_wrap=True)

    def fill(self, cluster: Cluster) -> None:
        self.say("Topics are created and filled")
        cluster.create_topic(_ORDERS, partitions=3, replication_factor=3)
        began, bar = time.monotonic(), watcher(self._output)
        bar.begin("writing orders", self._records)
        try:
            while self._written < self._records:
                self._write(cluster, min(_AT_ONCE, self._records - self._written))
                bar.reached(self._written, self._written_bytes)
        finally:
            bar.end()
        rate = self._records / (time.monotonic() - began)
        self.note(f"{self._records:,} orders written with acks=all: {rate:,.0f} records/s")

    def _write(self, cluster: Cluster, count: int) -> None:
        import pyarrow as pa

        from klamm.pipelines.source.options import parse_write
        from klamm.pipelines.source.sink import write_frames

        numbers = range(self._written, self._written + count)
        keys = [f"customer-{n % _CUSTOMERS}" for n in numbers]
        values = [f'{{"order": {n}, "amount": {n % 97}}}' for n in numbers]
        frame = pa.RecordBatch.from_pydict({"key": keys, "value": values})
        servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
        write_frames(parse_write(servers | {"topic": _ORDERS}), [frame], task=0)
        self._written += count
        self._written_bytes += sum(map(len, keys)) + sum(map(len, values))

    def stream(self, spark: SparkSession, cluster: Cluster, scratch: Path) -> None:
        self.say("Spark counts orders by customer while a broker is stopped and started")
        from klamm.pipelines.session.session import read_stream

        counted: dict[str, int] = {}
        seen_bytes = 0
        bar = watcher(self._output)

        def keep(rows: DataFrame, _batch: int) -> None:
            nonlocal seen_bytes
            by_customer = rows.groupBy("customer").agg({"*": "count", "size": "sum"})
            for customer, count, size in by_customer.select(*_COUNTED).collect():
                counted[customer] = counted.get(customer, 0) + count
                seen_bytes += size
            bar.reached(min(sum(counted.values()), self._records), seen_bytes)

        orders = read_stream(
            spark,
            cluster.bootstrap_servers,
            _ORDERS,
            checkpoint=scratch / "checkpoint",
            startingOffsets="earliest",
        )
        query = (
            orders.selectExpr("string(key) AS customer", "length(key) + length(value) AS size")
            .writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(scratch / "checkpoint"))
            .trigger(processingTime="500 milliseconds")
            .start()
        )
        try:
            bar.begin("counting orders", self._records)
            while sum(counted.values()) < self._records and query.isActive:
                query.processAllAvailable()
            bar.end()
            with _Meanwhile(lambda: self._write(cluster, 2000)) as writing:
                self._shake(cluster, writing)
            query.processAllAvailable()
        finally:
            bar.end()
            query.stop()
        total = sum(counted.values())
        self.facts["streamed"] = {"records": total, "written": self._written}
        if total != self._written or len(counted) != _CUSTOMERS:
            raise KlammError(f"{self._written} orders were written, and {total} were counted")
        self.note(f"{total:,} orders counted, {self._written:,} written: every one exactly once")

    def _shake(self, cluster: Cluster, writing: _Meanwhile) -> None:
        victim = next(b for b in cluster.running if b != cluster.controller_id)
        cluster.stop_broker(victim)
        cluster.wait_for_isr(_ORDERS, size=2)
        self.note(f"broker {victim} is stopped: its partitions have other leaders")
        writing.await_rounds(5)
        cluster.start_broker(victim)
        cluster.wait_for_isr(_ORDERS, size=3)
        self.note(f"broker {victim} is back and has caught up")
        writing.await_rounds(2)

    def grow(self, cluster: Cluster) -> None:
        self.say("The topic grows from 3 partitions to 6")
        from klamm.cli.topics.changes import add_partitions
        from klamm.cli.topics.story import gather, tell

        def told() -> list[dict[str, Any]]:
            return run(cluster.bootstrap_servers, lambda admin: gather(admin, _ORDERS, set()))

        before = len(told())
        run(cluster.bootstrap_servers, lambda admin: add_partitions(admin, _ORDERS, 6, None))
        cluster.wait_for_topic(_ORDERS, partitions=6)
        # A partition serves before the last line about it is written.
        patience = time.monotonic() + _PATIENCE_S
        while not is_grown(new := told()[before:], 3) and time.monotonic() < patience:
            time.sleep(0.1)
        self.note("what the controller says about it (klamm story orders):")
        for line in tell(new):
            self.note(f"  {line}")

    def archive(self, spark: SparkSession, cluster: Cluster) -> None:
        self.say("The topic is archived, verified, deleted, and restored with proof")
        from klamm.pipelines.archive.archiving import archive, verify
        from klamm.pipelines.archive.restoring import restore

        reach, bar = connection(cluster.bootstrap_servers), watcher(self._output)
        done = archive(spark, reach, _ORDERS, self._to / "archive", progress=bar)
        kept = done.manifest
        self.note(f"{kept.records:,} records, {len(kept.files)} files, {size_text(kept.bytes)}")
        if faults := verify(spark, kept, progress=bar):
            raise KlammError(f"the archive is damaged: {faults[0]}")
        from klamm.client.blocking.lookup import Lookup

        Lookup(reach).delete(_ORDERS)
        cluster.wait_for_no_topic(_ORDERS)
        self.note(f"{_ORDERS} is deleted")
        back = restore(spark, reach, kept, check=False, progress=bar)
        self.note(f"{back.records:,} records are back; read again, every window has its old digest")
        self.facts["archived"] = {"records": kept.records, "manifest": done.manifest_path}
        self.facts["restored"] = {"records": back.records}

    def audit(self, spark: SparkSession, cluster: Cluster) -> None:
        self.say("Everything the controller decided is audited")
        from klamm.pipelines.audit import judging as audit
        from klamm.pipelines.audit.gathering import gather, not_in_the_topic
        from klamm.pipelines.audit.report import render
        from klamm.pipelines.jobs.writing import write_whole

        now = int(time.time() * 1000)
        servers = cluster.bootstrap_servers
        waiting = run(servers, not_in_the_topic)
        evidence = gather(spark, connection(servers), waiting, now_ms=now)
        bar = watcher(self._output)
        found = audit.run(spark, evidence, self._to / "tables", now_ms=now, progress=bar)
        page = self._to / "audit.html"
        write_whole(page, render(found, title="klamm demo: the audit"))
        verdict = "nothing is wrong" if found.is_clean else f"see the report: {found.counts}"
        self.note(f"{found.events} decisions, {verdict}")
        self.note(str(page))
        self.facts["audit"] = {"events": found.events, "clean": found.is_clean, "report": page}

    def leave(self) -> None:
        self.say("Try next")
        for line in farewell(this_command(), self._to):
            self.note(line)


def is_grown(told: list[dict[str, Any]], partitions: int) -> bool:
    """Whether a story has so many new partitions online, and all their replicas."""
    online = [str(record["subject"]) for record in told if record["after"] == "Online"]
    replicas = [subject for subject in online if " on broker " in subject]
    return len(online) - len(replicas) >= partitions and len(replicas) >= 3 * partitions


def farewell(command: str, to: Path) -> list[str]:
    """Three things to try next; the commands can be typed as they stand."""
    return [
        f"{command} up",
        "  runs a cluster of your own until Ctrl-C; docs/tutorial/first-hour.md goes on from there",
        f"{command} archive verify {shlex.quote(str(to / 'archive'))}",
        "  reads the archive again and compares every checksum",
        f"open {to / 'audit.html'}",
        "  in a browser: how long each transition took, and whether all were legal",
    ]


class _Meanwhile:
    """Does something again and again in a thread while the block runs."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._stop = threading.Event()
        self._round = threading.Semaphore(0)
        self._faults: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, name="klamm-demo", daemon=True)

    def _run(self) -> None:
        try:
            while not self._stop.wait(0.2):
                self._work()
                self._round.release()
        except KlammError as fault:
            self._faults.append(fault)

    def await_rounds(self, count: int) -> None:
        """Waits until it was done so many times more."""
        for _ in range(count):
            if not self._round.acquire(timeout=30):
                return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        with suppress(IndexError):
            raise self._faults[0]
