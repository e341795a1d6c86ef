"""`klamm demo`: a guided tour of about two minutes.

A cluster starts; topics are created and filled; Spark aggregates a stream while a broker is stopped
and started; a driver that writes exactly once is killed; a topic shrinks, with the order of its
keys proven, and grows; it is archived, deleted and restored with its proof; the audit of it all is
written. Everything is real and nothing is prepared: the numbers printed are those that were
seen.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from rich.console import Console

from klamm.cli.asking import run
from klamm.cli.invocation import this_command
from klamm.cli.options import Output, OutputOption, new_app
from klamm.cli.output import print_json
from klamm.cli.parsing.declared import Option
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
_COPY = "orders-copy"
_KEPT_S = 3600.0
_COUNTED = ("customer", "count(1)", "sum(size)")


@app.command()
def demo(
    to: Annotated[
        Path, Option("--to", metavar="DIR", help="the directory for archive and report")
    ] = Path("klamm-demo"),
    records: Annotated[int, Option(help="how many records to start with", min=1000)] = 200_000,
    output: OutputOption = Output.TEXT,
) -> None:
    """Take a guided tour: a stream, a killed driver, a topic that shrinks, an archive, an audit.

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
            with _Driver(cluster.bootstrap_servers, Path(scratch)) as driver:
                tour.stream(spark, cluster, Path(scratch))
                tour.write_once(spark, cluster, driver)
            tour.shrink(spark, cluster)
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

    def write_once(self, spark: SparkSession, cluster: Cluster, driver: _Driver) -> None:
        self.say("A program copies the topic exactly once, and its driver is killed")
        from klamm.cli.spark.demo_driver import copy_once

        cluster.create_topic(_COPY, partitions=3, replication_factor=3)
        seen = driver.kill_amid(lambda: self._count(cluster, committed=False))
        self.note(
            f"killed (kill -9) when {seen:,} records were written; a reader of committed ones "
            f"sees {self._count(cluster, committed=True):,}"
        )
        copy_once(spark, cluster.bootstrap_servers, _ORDERS, _COPY)
        servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
        committed = {"kafka.isolation.level": "read_committed", "subscribe": _COPY}
        rows = spark.read.format("klamm").options(**servers, **committed).load()
        total, different = rows.selectExpr("count(1)", "count(DISTINCT value)").collect()[0]
        self.facts["once"] = {"records": total, "written": self._written, "killed_at": seen}
        if (total, different) != (self._written, self._written):
            raise KlammError(f"{self._written} orders were copied, and {total} are there")
        self.note(f"run again, {total:,} orders are in the copy: every one exactly once")

    def _count(self, cluster: Cluster, *, committed: bool) -> int:
        from klamm.client.blocking.lookup import Lookup

        lookup = Lookup(connection(cluster.bootstrap_servers))
        found = lookup.topic(_COPY)
        return (
            0
            if found is None
            else sum(lookup.latest(found.partitions, committed=committed).values())
        )

    def shrink(self, spark: SparkSession, cluster: Cluster) -> None:
        self.say("The topic shrinks from 3 partitions to 2; the order of every key is kept")
        from klamm.client.blocking.lookup import Lookup
        from klamm.pipelines.repartition.repartition import Repartitioning
        from klamm.pipelines.repartition.steps import TopicCluster

        place = TopicCluster(Lookup(connection(cluster.bootstrap_servers)), None)
        bar, root = watcher(self._output), self._to / "repartition"
        done = Repartitioning(spark, place, _ORDERS, 2, root, _PATIENCE_S, bar, _KEPT_S).run()
        spread = " and ".join(f"{count:,}" for count in done.target_records)
        self.note(f"{done.records:,} orders are in 2 partitions: {spread}")
        self.note(
            f"proof: both topics read again, every order is there once, {done.violations} come "
            "after a later one of their customer"
        )
        self.note(
            f"producers waited {done.frozen_seconds:.1f} s; the old topic is kept as "
            f"{done.kept_as}, so that it can be undone"
        )
        self.facts["shrunk"] = {"records": done.records, "violations": done.violations}

    def grow(self, cluster: Cluster) -> None:
        self.say("The topic grows from 2 partitions to 5")
        from klamm.cli.topics.changes import add_partitions
        from klamm.cli.topics.story import gather, tell

        def told() -> list[dict[str, Any]]:
            return run(cluster.bootstrap_servers, lambda admin: gather(admin, _ORDERS, set()))

        before = len(told())
        run(cluster.bootstrap_servers, lambda admin: add_partitions(admin, _ORDERS, 5, None))
        cluster.wait_for_topic(_ORDERS, partitions=5)
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


class _Driver:
    """A program of its own, with a Spark of its own, that starts while other things are shown."""

    def __init__(self, bootstrap: str, scratch: Path) -> None:
        self._said = scratch / "driver.log"
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "klamm.cli.spark.demo_driver", bootstrap, _ORDERS, _COPY],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def kill_amid(self, written: Callable[[], int]) -> int:
        """Lets it begin, and kills it as soon as something is written; how much that was."""
        begins, ready = self._process.stdin, self._process.stdout
        assert begins is not None, "it was started with both"
        assert ready is not None, "it was started with both"
        if ready.readline() != b"ready\n":
            raise self._fault("did not start")
        begins.write(b"go\n")
        begins.flush()
        while not (count := written()):
            if self._process.poll() is not None:
                raise self._fault("ended by itself")
            time.sleep(0.01)
        self._kill()
        return count

    def _fault(self, what: str) -> KlammError:
        said = self._said.read_text(errors="replace").strip().splitlines()
        return KlammError(f"the second Spark {what}: {said[-1] if said else 'it said nothing'}")

    def _kill(self) -> None:
        """With its Java, which is of its session."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


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
