"""`klamm elect`: ask the controller for leader elections."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

from klamm.cli.asking import run
from klamm.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    DryRunOption,
    Output,
    OutputOption,
    new_app,
    parse_partition,
)
from klamm.cli.output import print_json, say, say_text, table
from klamm.cli.parsing.declared import Argument, Option
from klamm.cli.reach import Reach
from klamm.cli.topics import plans
from klamm.client.aio.admin import PREFERRED_ELECTION, UNCLEAN_ELECTION, Admin
from klamm.client.errors import code_of
from klamm.model.errors import ErrorCode, UsageError
from klamm.model.names import TopicPartition

app = new_app("Elect leaders.")

Results = list[dict[str, object]]


class ElectionKind(StrEnum):
    """The kind of an election."""

    PREFERRED = "preferred"
    UNCLEAN = "unclean"


@app.command()
def elect(
    kind: Annotated[
        ElectionKind,
        Argument(
            help="preferred: the first replica; unclean: any live replica, records may be lost"
        ),
    ],
    partitions: Annotated[
        list[str] | None, Argument(metavar="[TOPIC-PARTITION]...", help="such as orders-0")
    ] = None,
    everything: Annotated[bool, Option("--all", help="every partition")] = False,
    dry_run: DryRunOption = False,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Elect leaders for some partitions, or for all.

    Example: klamm elect preferred --all
    """
    if everything == bool(partitions):
        raise UsageError("name partitions such as orders-0, or use --all")
    if dry_run:
        _plan(kind, partitions or (), output, bootstrap_server)
        return
    results = run(bootstrap_server, lambda admin: _elect(admin, kind, partitions or ()))
    if output is Output.JSON:
        print_json(results)
    elif results:
        rows = [(r["topic"], r["partition"], r["result"]) for r in results]
        say_text(table(("topic", "partition", "result"), rows))
    if any(r["error"] not in (0, ErrorCode.ELECTION_NOT_NEEDED) for r in results):
        raise SystemExit(1)


def _plan(kind: ElectionKind, partitions: Sequence[str], output: Output, bootstrap: Reach) -> None:
    chosen = [TopicPartition(*parse_partition(text)) for text in partitions]
    body = plans.elections(kind, chosen or None)
    plan = run(bootstrap, lambda admin: plans.ask(admin, body))
    if output is Output.JSON:
        print_json(plan)
    else:
        say(*plans.tell(plan))
    refused = plan["refused"] if plan else []
    if any(entry["error_code"] != ErrorCode.ELECTION_NOT_NEEDED for entry in refused):
        raise SystemExit(1)


async def _elect(admin: Admin, kind: ElectionKind, partitions: Sequence[str]) -> Results:
    number = PREFERRED_ELECTION if kind is ElectionKind.PREFERRED else UNCLEAN_ELECTION
    chosen = [TopicPartition(*parse_partition(text)) for text in partitions]
    results = await admin.elect_leaders(number, chosen or None)
    return [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "error": result.error_code,
            "result": _words(result.error_code, result.error_message),
        }
        for tp, result in sorted(results.items())
    ]


def _words(code: int, message: str | None) -> str:
    if code == ErrorCode.NONE:
        return "elected"
    if code == ErrorCode.ELECTION_NOT_NEEDED:
        return "nothing to do"
    return message or code_of(code).name
