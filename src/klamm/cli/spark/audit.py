"""`klamm audit`: judge every decision of the controllers, and write a report about it.

The decisions are read from the topic `__klamm_ledger` with klamm's own source; brokers add what
they have not brought there yet.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from klamm.cli.asking import refuse, run
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
from klamm.cli.spark.jobs import (
    DEFAULT_PATIENCE,
    PatienceOption,
    connection,
    job,
    make_directory,
    need_spark,
    parse_time,
    plain,
    watcher,
    when,
)
from klamm.client.admin import Admin
from klamm.client.settings import ClientSettings
from klamm.model.errors import UsageError
from klamm.protocol.private import PrivateKey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from klamm.client.settings import ConnectionOptions
    from klamm.pipelines.audit.judging import Evidence

app = new_app("Check every decision of the controllers, and write a report.")

_PAGE = 10_000


@app.command()
def audit(
    to: Annotated[
        Path, typer.Option("--to", metavar="DIR", help="the directory for report and tables")
    ] = Path("klamm-audit"),
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="only decisions since this time, such as 2026-11-15T08:30"
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="read ledger files instead of asking the brokers"),
    ] = None,
    stuck_after: Annotated[
        int, typer.Option(min=0, help="seconds after which a deletion counts as stuck")
    ] = 60,
    output: OutputOption = Output.TEXT,
    patience: PatienceOption = DEFAULT_PATIENCE,
    master: MasterOption = DEFAULT_MASTER,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Check every decision of the controllers, and write a report.

    It looks for illegal transitions, broken chains, lost events and stuck deletions, and measures
    latencies. The result is a summary, Parquet tables, and one page of HTML.
    """
    since_ms = parse_time(since) if since is not None else 0
    need_spark(master)
    if ledger is not None:
        check_ledger(ledger)
    waiting = run(bootstrap_server, not_in_the_topic) if ledger is None else []
    make_directory(to)
    with job(master, "audit") as spark:
        from klamm.pipelines.archive.writing import write_whole
        from klamm.pipelines.audit import judging as pipeline
        from klamm.pipelines.audit.report import render

        now_ms = int(time.time() * 1000)
        if ledger is not None:
            evidence = pipeline.of_files(spark, str(ledger.absolute()))
        else:
            reach = connection(bootstrap_server, patience_s=patience)
            evidence = gather(spark, reach, waiting, now_ms=now_ms, since_ms=since_ms)
        found = pipeline.run(
            spark,
            evidence,
            to.absolute() / "tables",
            now_ms=now_ms,
            since_ms=since_ms,
            stuck_after_ms=stuck_after * 1000,
            progress=watcher(output),
        )
    page = to.absolute() / "audit.html"
    write_whole(page, render(found, title="klamm audit"))
    if output is Output.JSON:
        print_json(
            plain(
                {"report": page, "events": found.events, "clean": found.is_clean}
                | {"source": evidence.source}
                | {"findings": found.counts}
            )
        )
    else:
        say(*_summary(found, evidence.source))
        say(page)
    if not found.is_clean:
        raise typer.Exit(1)


def check_ledger(path: Path) -> None:
    """Files without an event in them would be judged flawless: a wrong path must not look so."""
    if not path.exists():
        raise UsageError(f"the ledger {path} does not exist")
    try:
        files = sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]
        for file in files:
            with file.open("rb") as lines:
                if any(b'"controller_epoch"' in line for line in lines):
                    return
    except OSError as fault:
        raise UsageError(f"cannot read {fault.filename}: {fault.strerror}") from None
    raise UsageError(f"{path} contains no ledger events")


def _summary(found: Any, source: str) -> Iterator[str]:
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


def gather(
    spark: SparkSession,
    reach: ConnectionOptions,
    waiting: Sequence[Mapping[str, Any]],
    *,
    now_ms: int,
    since_ms: int = 0,
) -> Evidence:
    """The ledger's topic; where there is none that can be read, what brokers have in their files.

    What is not in the topic yet is asked for before the topic is looked at: so nothing falls in
    between, and what is in both counts once.
    """
    from klamm.pipelines.audit import judging as pipeline

    found = pipeline.of_topic(spark, reach, waiting, now_ms=now_ms, since_ms=since_ms)
    if found is None:
        found = pipeline.of_entries(
            spark, run(reach.servers, everything, ClientSettings(security=reach.security))
        )
    return found


async def not_in_the_topic(admin: Admin) -> list[dict[str, Any]]:
    """The entries that live brokers have not copied to the ledger's topic yet."""
    return await _pages(admin, {"waiting": True})


async def everything(admin: Admin) -> list[dict[str, Any]]:
    """The entries of all live brokers."""
    return await _pages(admin, {})


async def _pages(admin: Admin, question: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: dict[tuple[int, int], dict[str, Any]] = {}
    asked: dict[int, list[int]] = {
        broker: [-1, -1] for broker in await admin.ask_brokers(PrivateKey.STORY, {"limit": 1})
    }
    while asked:
        for broker, after in list(asked.items()):
            body = {**question, "after": after, "limit": _PAGE}
            answer = (await admin.ask_brokers(PrivateKey.STORY, body, [broker]))[broker]
            refuse(answer["error_code"], f"broker {broker}", answer.get("error_message"))
            entries = answer["entries"]
            for entry in entries:
                found[entry["controller_epoch"], entry["sequence"]] = entry
            if len(entries) < _PAGE:
                del asked[broker]
            else:
                asked[broker] = [entries[-1]["controller_epoch"], entries[-1]["sequence"]]
    return [entry for _, entry in sorted(found.items())]
