"""`klamm consume`: print the records of a topic."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

from klamm.cli.asking import run
from klamm.cli.groups.offsets import offsets_at
from klamm.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, new_app
from klamm.cli.parsing.declared import Option
from klamm.cli.records import lines as records
from klamm.cli.records.patterns import Writer
from klamm.cli.times import moment_of
from klamm.client.aio.admin import Admin
from klamm.client.aio.consumer import Consumed, Consumer
from klamm.model.errors import NotThere, UsageError
from klamm.model.names import TopicPartition
from klamm.model.offsets import EARLIEST, LATEST
from klamm.protocol.fetch import READ_COMMITTED, READ_UNCOMMITTED

app = new_app("Print the records of a topic.")

Showing = Callable[[Consumed, str | None], bytes]

_PLACES = {"earliest": EARLIEST, "latest": LATEST}


@app.command()
def consume(
    topic: str,
    partition: Annotated[
        list[int] | None, Option("--partition", "-p", help="repeatable; default: all")
    ] = None,
    start: Annotated[
        str,
        Option(
            "--from",
            metavar="earliest|latest|OFFSET|@TIME",
            help="where to begin; a time is @-1h (so long ago: s, m, h, d), @2026-11-15T08:30 "
            "or @ and milliseconds",
        ),
    ] = "earliest",
    count: Annotated[int | None, Option("-n", min=1, help="stop after N records")] = None,
    follow: Annotated[
        bool, Option("--follow", "-f", help="wait for new records at the end")
    ] = False,
    committed: Annotated[
        bool, Option("--committed", help="only records of committed transactions")
    ] = False,
    keys: Annotated[
        str | None, Option("--key-separator", metavar="TEXT", help="print keys too")
    ] = None,
    pattern: Annotated[
        str | None,
        Option(
            "--format",
            metavar="PATTERN",
            help="print this of each record, such as '%p:%o %k=%v' (%k key, %v value, %h headers, "
            "%p partition, %o offset, %t timestamp, %T topic)",
        ),
    ] = None,
    raw: Annotated[
        bool, Option("--raw", help="print raw bytes, which may garble a terminal")
    ] = False,
    output: Annotated[
        Output, Option("--output", "-o", help="json: one object per line")
    ] = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Print the records of a topic: up to its end, or with --follow until Ctrl-C.

    Example: klamm consume orders --from earliest --follow
    """
    moment = moment_of(start[1:]) if start.startswith("@") else None
    place = LATEST if moment is not None else _place(start)
    show = _showing(output, raw, pattern, keys)

    async def work(admin: Admin) -> None:
        wanted = await _partitions(admin, topic, partition)
        ends = await offsets_at(admin, dict.fromkeys(wanted, LATEST))
        level = READ_COMMITTED if committed else READ_UNCOMMITTED
        left = count
        begin = dict.fromkeys(wanted, place)
        if moment is not None:
            found = await offsets_at(admin, dict.fromkeys(wanted, moment))
            begin = {tp: ends[tp] if at < 0 else at for tp, at in found.items()}
        async with Consumer(admin.client, begin, isolation_level=level) as consumer:
            while left is None or left > 0:
                if not follow and all(consumer.positions[tp] >= ends[tp] for tp in wanted):
                    return
                batch = await consumer.poll(timeout_s=1, records_max=left or 10_000)
                for record in batch:
                    sys.stdout.buffer.write(show(record, keys))
                sys.stdout.buffer.flush()
                left = None if left is None else left - len(batch)

    run(bootstrap_server, work)


def _showing(output: Output, raw: bool, pattern: str | None, keys: str | None) -> Showing:
    """The way from a record to a line."""
    if output is Output.JSON and (raw or pattern is not None):
        raise UsageError("--output json cannot be used with --raw or --format")
    if pattern is not None:
        if keys is not None:
            raise UsageError("--format says where the key goes: leave out --key-separator")
        return Writer(pattern, raw=raw)
    return records.to_line if output is Output.JSON else records.to_raw if raw else records.to_text


def _place(text: str) -> int:
    if text in _PLACES:
        return _PLACES[text]
    if not text.isdigit():
        raise UsageError(f"--from takes earliest, latest, an offset or @TIME, not {text!r}")
    return int(text)


async def _partitions(admin: Admin, topic: str, chosen: list[int] | None) -> list[TopicPartition]:
    found = (await admin.topics([topic])).get(topic)
    if found is None or found.error_code:
        raise NotThere(f"there is no topic {topic!r}")
    known = sorted(partition.partition_index for partition in found.partitions)
    for index in chosen or ():
        if index not in known:
            raise NotThere(f"there is no partition {topic}-{index}: it has {len(known)}")
    return [TopicPartition(topic, index) for index in chosen or known]
