"""`klamm audit`: judge every decision of the controllers, and write a report about it."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from klamm.cli.asking import refuse, run
from klamm.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption, new_app
from klamm.cli.output import print_json
from klamm.cli.spark_jobs import DEFAULT_MASTER, MasterOption, job, parse_time, plain, when
from klamm.client.admin import Admin
from klamm.protocol.private import PrivateKey

app = new_app("Judge every decision of the controllers, and write a report.")

_PAGE = 10_000


@app.command()
def audit(
    to: Annotated[
        Path, typer.Option("--to", metavar="DIR", help="where report and tables go")
    ] = Path("klamm-audit"),
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="leave out what is older")
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="read these ledger files instead of asking the brokers"),
    ] = None,
    stuck_after: Annotated[int, typer.Option(help="seconds after which a deletion is stuck")] = 60,
    output: OutputOption = Output.TEXT,
    master: MasterOption = DEFAULT_MASTER,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Judge every decision of the controllers: illegal moves, broken chains, lost events, stuck
    deletions, latencies; as a summary, as Parquet tables, and as one page of HTML."""
    since_ms = parse_time(since) if since is not None else 0
    to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        source = ledger or Path(scratch) / "ledger.jsonl"
        if ledger is None:
            write_ledger(source, run(bootstrap_server, gather))
        with job(master, "audit") as spark:
            from klamm.pipelines import audit as pipeline
            from klamm.pipelines.report import render

            found = pipeline.run(
                spark,
                str(source.absolute()),
                to.absolute() / "tables",
                now_ms=int(time.time() * 1000),
                since_ms=since_ms,
                stuck_after_ms=stuck_after * 1000,
            )
    page = to / "audit.html"
    page.write_text(render(found, title="klamm audit"))
    if output is Output.JSON:
        print_json(
            plain(
                {"report": page, "events": found.events, "clean": found.is_clean}
                | {"findings": found.counts}
            )
        )
    else:
        print("\n".join(_summary(found)))
        print(page.absolute())
    if not found.is_clean:
        raise typer.Exit(1)


def _summary(found: Any) -> Iterator[str]:
    span = f"{when(found.first_ms)} to {when(found.last_ms)} UTC" if found.events else "none"
    yield f"{found.events:,} events, {span}, {found.counts['epochs']} controller epochs"
    for name, label in (
        ("illegal", "illegal moves"),
        ("broken_chains", "broken chains"),
        ("lost", "lost events"),
        ("stuck", "stuck deletions"),
    ):
        yield f"{found.counts[name]:>8,}  {label}"
    for row in found.rows["stuck"][:5]:
        yield f"          {row['subject']}: {row['state']}, {row['waits_for']}"


def write_ledger(path: Path, entries: Iterable[dict[str, Any]]) -> None:
    """Entries as the lines that the job reads."""
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))


async def gather(admin: Admin) -> list[dict[str, Any]]:
    """What all brokers that are up wrote down, taken in pages."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    waiting: dict[int, list[int]] = {
        broker: [-1, -1] for broker in await admin.ask_brokers(PrivateKey.STORY, {"limit": 1})
    }
    while waiting:
        for broker, after in list(waiting.items()):
            body = {"after": after, "limit": _PAGE}
            answer = (await admin.ask_brokers(PrivateKey.STORY, body, [broker]))[broker]
            refuse(answer["error_code"], f"broker {broker}", answer.get("error_message"))
            entries = answer["entries"]
            for entry in entries:
                found[entry["controller_epoch"], entry["sequence"]] = entry
            if len(entries) < _PAGE:
                del waiting[broker]
            else:
                waiting[broker] = [entries[-1]["controller_epoch"], entries[-1]["sequence"]]
    return [entry for _, entry in sorted(found.items())]
