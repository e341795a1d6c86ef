"""`klamm audit`: judge every decision of the controllers, and write a report about it.

The decisions are read from the topic `__klamm_ledger` with klamm's own source; brokers add what
they have not brought there yet.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from klamm.cli.asking import run
from klamm.cli.options import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_MASTER,
    BootstrapOption,
    MasterOption,
    Output,
    OutputOption,
    new_app,
)
from klamm.cli.output import print_json, say
from klamm.cli.parsing.declared import Option
from klamm.cli.reach import Reach
from klamm.cli.spark.jobs import (
    DEFAULT_PATIENCE,
    PatienceOption,
    connection,
    job,
    make_directory,
    need_spark,
    plain,
    require_pyarrow,
    watcher,
    when,
)
from klamm.cli.times import parse_time

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from klamm.pipelines.audit.findings import Findings
    from klamm.pipelines.audit.judging import LedgerEvidence

app = new_app("Check every decision of the controllers, and write a report.")


@app.command()
def audit(
    to: Annotated[
        Path, Option("--to", metavar="DIR", help="the directory for report and tables")
    ] = Path("klamm-audit"),
    since: Annotated[
        str | None,
        Option(metavar="TIME", help="only decisions since this time, such as 2026-11-15T08:30"),
    ] = None,
    ledger: Annotated[
        Path | None,
        Option(metavar="DIR", help="read ledger files instead of asking the brokers"),
    ] = None,
    stuck_after: Annotated[
        int, Option(min=0, help="seconds after which a deletion counts as stuck")
    ] = 60,
    no_spark: Annotated[
        bool,
        Option("--no-spark", help="judge here, without Spark: for ledgers that are small"),
    ] = False,
    output: OutputOption = Output.TEXT,
    patience: PatienceOption = DEFAULT_PATIENCE,
    master: MasterOption = DEFAULT_MASTER,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Check every decision of the controllers, and write a report.

    It looks for illegal transitions, broken chains, lost events and stuck deletions, and measures
    latencies. The result is a summary, Parquet tables, and one page of HTML.

    Example: klamm audit --to report --since 2026-11-15
    """
    since_ms = parse_time(since) if since is not None else 0
    require_pyarrow()
    from klamm.pipelines.places.errands import brought_from, sent_to

    # In a store: it is worked on here, and sent when the command ends, whatever it found.
    with ExitStack() as errands:
        to = errands.enter_context(sent_to(to))
        if ledger is not None:
            ledger = errands.enter_context(brought_from(ledger))
        if no_spark:
            limits = {"since_ms": since_ms, "stuck_after_ms": stuck_after * 1000}
            _without_spark(ledger, bootstrap_server, to, patience, output, **limits)
            return
        need_spark(master)
        evidence = _evidence(ledger, bootstrap_server, patience_s=patience, since_ms=since_ms)
        make_directory(to)
        with job(master, "audit") as spark:
            from klamm.pipelines.audit import judging

            now_ms = int(time.time() * 1000)
            judged = evidence(spark, now_ms)
            found = judging.run(
                spark,
                judged,
                to.absolute() / "tables",
                now_ms=now_ms,
                since_ms=since_ms,
                stuck_after_ms=stuck_after * 1000,
                progress=watcher(output),
            )
        _publish(found, judged.source, to.absolute() / "audit.html", output)


def _without_spark(
    ledger: Path | None,
    bootstrap: Reach,
    to: Path,
    patience_s: float,
    output: Output,
    **limits: int,
) -> None:
    """The same by this process alone."""
    require_pyarrow()
    from klamm.pipelines.audit import gathering, judging_here

    now_ms = int(time.time() * 1000)
    if ledger is not None:
        gathering.check_ledger(ledger)
        make_directory(to)
        judged = judging_here.of_files(ledger.absolute())
    else:
        waiting = run(bootstrap, gathering.not_in_the_topic)
        reach = connection(bootstrap, patience_s=patience_s)
        make_directory(to)
        judged = gathering.gather_here(reach, waiting, now_ms=now_ms, since_ms=limits["since_ms"])
    found = judging_here.run(judged, to.absolute() / "tables", now_ms=now_ms, **limits)
    _publish(found, judged.source, to.absolute() / "audit.html", output)


def _evidence(
    ledger: Path | None, bootstrap: Reach, *, patience_s: float, since_ms: int
) -> Callable[[SparkSession, int], LedgerEvidence]:
    """Finds the evidence before Spark starts; the result reads it with Spark."""
    from klamm.pipelines.audit import gathering, judging

    if ledger is not None:
        gathering.check_ledger(ledger)
        return lambda spark, _now_ms: judging.of_files(spark, str(ledger.absolute()))
    waiting = run(bootstrap, gathering.not_in_the_topic)
    reach = connection(bootstrap, patience_s=patience_s)
    return lambda spark, now_ms: gathering.gather(
        spark, reach, waiting, now_ms=now_ms, since_ms=since_ms
    )


def _publish(found: Findings, source: str, page: Path, output: Output) -> None:
    """Writes the page and says what is in it."""
    from klamm.pipelines.audit.report import render
    from klamm.pipelines.jobs.writing import write_whole
    from klamm.pipelines.places.errands import told

    write_whole(page, render(found, title="klamm audit"))
    if output is Output.TEXT:
        say(*_summary(found, source))
        say(told(page))
    else:
        whole = {"report": told(page), "events": found.events, "clean": found.is_clean}
        print_json(plain(whole | {"source": source, "findings": found.counts}))
    if not found.is_clean:
        raise SystemExit(1)


def _summary(found: Findings, source: str) -> Iterator[str]:
    span = f"{when(found.first_ms)} to {when(found.last_ms)} UTC" if found.events else "none"
    yield f"{found.events:,} events, {span}, {found.counts['epochs']} controller epochs"
    yield f"read from {source}"
    for name, label in (
        ("illegal", "illegal transitions"),
        ("broken_chains", "broken chains"),
        ("lost", "gaps with lost events"),
        ("stuck", "stuck deletions"),
    ):
        yield f"{found.counts[name]:>8,}  {label}"
    late = sum(row["late"] for row in found.rows["epochs"])
    yield f"{late:>8,}  events written after a controller's term"
    quiet = [(row["quiet_ms"], row["controller_epoch"]) for row in found.rows["epochs"]]
    if longest := max((each for each in quiet if each[0] is not None), default=None):
        seconds, epoch = longest[0] / 1000, longest[1]
        yield f"{seconds:>8,.1f}  seconds of silence at most, before epoch {epoch}"
    for row in found.rows["stuck"][:5]:
        yield f"          {row['subject']}: {row['state']}, {row['waits_for']}"
