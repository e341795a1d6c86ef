"""`klamm consume`: print the records of a topic."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from klamm.cli.asking import run
from klamm.cli.groups.offsets import offsets_at
from klamm.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, new_app
from klamm.cli.records import lines as records
from klamm.client.admin import Admin
from klamm.client.consumer import Consumer
from klamm.model.errors import UsageError
from klamm.model.names import TopicPartition
from klamm.model.offsets import EARLIEST, LATEST
from klamm.protocol.fetch import READ_COMMITTED, READ_UNCOMMITTED

app = new_app("Print the records of a topic.")

_PLACES = {"earliest": EARLIEST, "latest": LATEST}


@app.command()
def consume(
    topic: str,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", help="repeatable; default: all")
    ] = None,
    start: Annotated[
        str, typer.Option("--from", metavar="earliest|latest|OFFSET", help="where to begin")
    ] = "earliest",
    count: Annotated[int | None, typer.Option("-n", min=1, help="stop after N records")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="wait for new records at the end")
    ] = False,
    committed: Annotated[
        bool, typer.Option("--committed", help="only records of committed transactions")
    ] = False,
    keys: Annotated[
        str | None, typer.Option("--key-separator", metavar="TEXT", help="print keys too")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="print raw bytes, which may garble a terminal")
    ] = False,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="json: one object per line")
    ] = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Print the records of a topic: up to its end, or with --follow until Ctrl-C."""
    place = _place(start)
    if raw and output is Output.JSON:
        raise UsageError("--raw and --output json cannot be used together")
    show = records.to_line if output is Output.JSON else records.to_raw if raw else records.to_text

    async def work(admin: Admin) -> None:
        wanted = await _partitions(admin, topic, partition)
        ends = await offsets_at(admin, dict.fromkeys(wanted, LATEST))
        level = READ_COMMITTED if committed else READ_UNCOMMITTED
        left = count
        async with Consumer(
            admin.client, dict.fromkeys(wanted, place), isolation_level=level
        ) as consumer:
            while left is None or left > 0:
                if not follow and all(consumer.positions[tp] >= ends[tp] for tp in wanted):
                    return
                batch = await consumer.poll(timeout_s=1, records_max=left or 10_000)
                for record in batch:
                    sys.stdout.buffer.write(show(record, keys))
                sys.stdout.buffer.flush()
                left = None if left is None else left - len(batch)

    run(bootstrap_server, work)


def _place(text: str) -> int:
    if text in _PLACES:
        return _PLACES[text]
    if not text.isdigit():
        raise UsageError(f"--from takes earliest, latest or an offset, not {text!r}")
    return int(text)


async def _partitions(admin: Admin, topic: str, chosen: list[int] | None) -> list[TopicPartition]:
    found = (await admin.topics([topic])).get(topic)
    if found is None or found.error_code:
        raise UsageError(f"there is no topic {topic!r}")
    known = sorted(partition.partition_index for partition in found.partitions)
    for index in chosen or ():
        if index not in known:
            raise UsageError(f"topic {topic!r} has {len(known)} partitions and no {index}")
    return [TopicPartition(topic, index) for index in chosen or known]
