"""`klamm produce`: write lines of standard input to a topic."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Annotated

import typer

from klamm.cli.asking import run
from klamm.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Compression, new_app, parse_pairs
from klamm.cli.output import say
from klamm.cli.records import lines as records
from klamm.client.admin import Admin
from klamm.client.producer import Producer
from klamm.model.errors import UsageError

app = new_app("Write lines from standard input to a topic.")


class Acks(StrEnum):
    """The replicas that must have a record before it counts as written."""

    ALL = "all"
    ONE = "1"
    NONE = "0"


class Format(StrEnum):
    """The format of a line."""

    TEXT = "text"
    JSON = "json"


@app.command()
def produce(
    topic: str,
    key_separator: Annotated[
        str | None, typer.Option(metavar="TEXT", help="the text between key and value")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header", "-H", metavar="K=V", help="add this header to every record; repeatable"
        ),
    ] = None,
    partition: Annotated[
        int | None, typer.Option(help="write to this partition; default: chosen by key")
    ] = None,
    acks: Annotated[Acks, typer.Option(help="which replicas must confirm a record")] = Acks.ALL,
    compression: Annotated[Compression, typer.Option()] = Compression.NONE,
    form: Annotated[
        Format, typer.Option("--format", "-f", help="json: lines in the format of consume -o json")
    ] = Format.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Write lines from standard input to a topic."""
    if form is Format.JSON and key_separator is not None:
        raise UsageError("--key-separator is for text: a JSON line names its key")
    extra = parse_pairs(header or (), option="--header")
    common = tuple((name, value.encode()) for name, value in extra.items())
    separator = key_separator.encode() if key_separator is not None else None
    codec = compression.codec

    async def work(admin: Admin) -> int:
        count = 0
        wanted = -1 if acks is Acks.ALL else int(acks)
        async with Producer(admin.client, acks=wanted, codec=codec) as producer:
            async for line in _lines():
                if form is Format.JSON:
                    record = records.from_json(line)
                else:
                    record = records.from_text(line, separator)
                await producer.send(
                    topic,
                    record.value,
                    key=record.key,
                    headers=(*record.headers, *common),
                    partition=partition if partition is not None else record.partition,
                )
                count += 1
        return count

    count = run(bootstrap_server, work)
    say(f"wrote {count} record{'s' * (count != 1)} to {topic}", to=sys.stderr)


async def _lines() -> AsyncIterator[bytes]:
    """Lines without their ends. A thread waits for them, so that records go out meanwhile."""
    while line := await asyncio.to_thread(sys.stdin.buffer.readline):
        yield line.removesuffix(b"\n").removesuffix(b"\r")
