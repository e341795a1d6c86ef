"""`klamm produce`: write lines of standard input to a topic."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from enum import StrEnum
from typing import Annotated

from klamm.cli.asking import run
from klamm.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    Compression,
    Output,
    OutputOption,
    new_app,
    parse_pair_list,
)
from klamm.cli.output import (
    counted,
    print_json,
    say,
)
from klamm.cli.parsing.declared import Option
from klamm.cli.records import lines as records
from klamm.cli.records.patterns import PatternReader, PatternRecord
from klamm.cli.records.troubles import Telling
from klamm.client.aio.admin import Admin
from klamm.client.aio.producer import Producer
from klamm.model.errors import NotThere, UsageError

app = new_app("Write lines from standard input to a topic.")


class Acks(StrEnum):
    """The replicas that must have a record before it counts as written."""

    ALL = "all"
    ONE = "1"
    NONE = "0"


Reading = Callable[[bytes, int], PatternRecord]


@app.command()
def produce(
    topic: str,
    key_separator: Annotated[
        str | None, Option(metavar="TEXT", help="the text between key and value")
    ] = None,
    header: Annotated[
        list[str] | None,
        Option("--header", "-H", metavar="K=V", help="add this header to every record; repeatable"),
    ] = None,
    partition: Annotated[
        int | None, Option(help="write to this partition; default: chosen by key")
    ] = None,
    acks: Annotated[Acks, Option(help="which replicas must confirm a record")] = Acks.ALL,
    compression: Annotated[Compression, Option()] = Compression.NONE,
    form: Annotated[
        str,
        Option(
            "--format",
            "-f",
            metavar="text|json|PATTERN",
            help="json: lines in the format of consume -o json; a pattern such as '%k=%v' "
            "(%k key, %v value, %h headers a=1,b=2, %p partition, %t timestamp)",
        ),
    ] = "text",
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Write lines from standard input to a topic.

    Example: echo 'alice=10' | klamm produce orders --key-separator =
    """
    read = _reading(form, key_separator)
    # A record may have the same header twice.
    extra = parse_pair_list(header or (), option="--header")
    common = tuple((name, value.encode()) for name, value in extra)
    codec = compression.codec

    async def work(admin: Admin) -> int:
        count = 0
        places = await _places(admin, topic)
        _check(topic, partition, places)
        wanted = -1 if acks is Acks.ALL else int(acks)
        told = Telling()
        async with Producer(
            admin.client, acks=wanted, codec=codec, on_trouble=told.hear
        ) as producer:
            async for line in _lines():
                record, timestamp = read(line, count + 1)
                _check(topic, record.partition, places, f"line {count + 1}: ")
                await producer.send(
                    topic,
                    record.value,
                    key=record.key,
                    headers=(*record.headers, *common),
                    partition=partition if partition is not None else record.partition,
                    timestamp=timestamp,
                )
                count += 1
        return count

    count = run(bootstrap_server, work)
    if output is Output.JSON:
        print_json({"topic": topic, "records": count})
    else:
        say(f"wrote {counted(count, 'record')} to {topic}", to=sys.stderr)


def _reading(form: str, separator: str | None) -> Reading:
    """The way from a line to a record."""
    if form == "text":
        between = None if separator is None else separator.encode()
        return lambda line, _number: PatternRecord(records.from_text(line, between), None)
    if separator is not None:
        raise UsageError("--key-separator is for text: JSON and patterns say where the key is")
    if form == "json":
        return lambda line, number: PatternRecord(records.from_json(line, number), None)
    if "%" not in form:
        raise UsageError(f"--format takes text, json or a pattern such as '%k=%v', not {form!r}")
    return PatternReader(form)


async def _places(admin: Admin, topic: str) -> int | None:
    """The number of a topic's partitions; None where writing to it will create it."""
    found = (await admin.topics([topic])).get(topic)
    return None if found is None or found.error_code else len(found.partitions)


def _check(topic: str, partition: int | None, places: int | None, where: str = "") -> None:
    if partition is not None and places is not None and not 0 <= partition < places:
        raise NotThere(f"{where}there is no partition {topic}-{partition}: it has {places}")


async def _lines() -> AsyncIterator[bytes]:
    """Lines without their ends. A thread waits for them, so that records go out meanwhile."""
    while line := await asyncio.to_thread(sys.stdin.buffer.readline):
        yield line.removesuffix(b"\n").removesuffix(b"\r")
