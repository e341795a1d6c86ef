"""Records of a topic: from newest, oldest, an offset or a time; searched, within bounds.

Nothing is kept: what is shown is read for whoever asks, by their own right.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from klamm.client.aio.admin import ConfigResource
from klamm.client.aio.consumer import Consumed, Consumer
from klamm.console.params import Param
from klamm.console.problems import Problem
from klamm.console.scene import Ask, Json, Scene, View
from klamm.console.showing import paths, rendering, twins
from klamm.console.showing.masks import Cover
from klamm.console.views.brokers import settings_of
from klamm.console.views.topics import TOPIC
from klamm.model.alterations import ConfigResourceType
from klamm.model.errors import KlammError
from klamm.model.names import TopicPartition
from klamm.model.offsets import EARLIEST, LATEST

_PREVIEW: Final = 2_048
_FULL: Final = 65_536
_SCAN_S: Final = 5.0
_SCAN_BYTES: Final = 64 * 1024 * 1024
_SCAN_RECORDS: Final = 100_000
_ROUND_BYTES: Final = 1024 * 1024
_ONE: Final = 16 * 1024 * 1024
_Seen = tuple[Consumed, Consumed]  # a record, and what may be seen of it


@dataclass(slots=True)
class _Scan:
    """The progress of a search."""

    records: int = 0
    size: int = 0
    found: int = 0
    why: str = "end"


async def records(scene: Scene, ask: Ask) -> Json:
    """A page of records that fit, and a cursor to go on from."""
    if not scene.sees_records:
        raise Problem(403, "records are hidden here until you sign in", needed="sign-in")
    topic = scene.topic(ask["topic"])
    cover = scene.masks.of(topic.name)
    look = _look(ask, cover)
    led = [p.index for p in topic.partitions if p.leader >= 0]
    wanted = [p for p in led if ask["p"] is None or p == ask["p"]]
    missing = [p.index for p in topic.partitions if p.leader < 0]
    start, ends = await _places(scene, ask, topic.name, wanted)
    scan = _Scan()
    begun = time.monotonic()
    found: list[_Seen] = []
    cursor = {tp.partition: offset for tp, offset in start.items()}
    behind = {tp: offset for tp, offset in start.items() if offset < ends[tp]}
    if behind:
        async with Consumer(
            scene.admin.client,
            behind,
            max_wait_ms=100,
            max_bytes=4 * _ROUND_BYTES,
            partition_max_bytes=_ROUND_BYTES,
        ) as consumer:
            await _read(consumer, ask, look, ends, found, scan, cursor, begun)
    most = _FULL if ask["full"] else _PREVIEW
    form = ask["as"]
    if form == "avro":  # a registry is asked, which waits
        items = await asyncio.to_thread(_items, found, most, form, scene.decode, cover)
    else:
        items = _items(found, most, form, None, cover)
    if ask["from"] == "newest" and not ask["cursor"]:
        items.sort(key=lambda item: (-item["time_ms"], -item["offset"]))
    return {
        "name": topic.name,
        "items": items,
        "scanned": scan.records,
        "scanned_bytes": scan.size,
        "stopped": scan.why,
        "took_ms": round((time.monotonic() - begun) * 1000),
        "cursor": ",".join(f"{p}:{offset}" for p, offset in sorted(cursor.items())),
        "partitions": led,
        "missing": missing,
        "as": form,
        "masked": cover is not None,
    }


def _items(
    found: list[_Seen], most: int, form: str, decode: rendering.Decode | None, cover: Cover | None
) -> list[Json]:
    if cover is None:
        return [rendering.item(record, most, form, decode) for record, _ in found]
    plain = "text" if form == "avro" else form
    items = [rendering.item(seen, most, plain, None) | {"again": None} for _, seen in found]
    if form == "avro":
        for item, (record, _) in zip(items, found, strict=True):
            item |= _decoded(record, most, decode, cover)
    return items


def _decoded(
    record: Consumed, most: int, decode: rendering.Decode | None, cover: Cover
) -> dict[str, str]:
    """An Avro value without what is masked; what cannot be decoded stays away whole."""
    if record.value is None or decode is None:
        return {}
    value, fault = rendering.rendered(
        record.value, most, "avro", lambda data: cover.of(decode(data))
    )
    return {"fault": "not Avro"} if fault or value is None else {"value": value}


async def one_record(scene: Scene, topic: str, partition: int, offset: int) -> Consumed:
    """One whole record, for a download."""
    if not scene.sees_records:
        raise Problem(403, "records are hidden here until you sign in", needed="sign-in")
    found = scene.topic(topic)
    led = {p.index for p in found.partitions if p.leader >= 0}
    if partition not in led:
        raise Problem(404, f"{found.name}-{partition} is not there, or has no leader")
    start = {TopicPartition(found.name, partition): offset}
    async with Consumer(scene.admin.client, start, max_wait_ms=100, max_bytes=_ONE) as consumer:
        for record in await consumer.poll(timeout_s=_SCAN_S, records_max=1):
            if record.offset == offset:
                cover = scene.masks.of(found.name)
                return cover.over(record) if cover else record
    raise Problem(404, f"{found.name}-{partition} has no record at offset {offset}")


def file_name(topic: str, partition: int, offset: int) -> str:
    """A name for a file with one record: nothing in it can end a header or leave a directory."""
    kept = "".join(char if char.isascii() and char.isalnum() else "_" for char in topic)
    return f"{kept[:100] or 'record'}-{partition}-{offset}.bin"


async def _read(
    consumer: Consumer,
    ask: Ask,
    look: Callable[[Consumed], Consumed | None],
    ends: dict[TopicPartition, int],
    found: list[_Seen],
    scan: _Scan,
    cursor: dict[int, int],
    begun: float,
) -> None:
    while any(consumer.positions[tp] < ends[tp] for tp in consumer.positions):
        if time.monotonic() - begun > _SCAN_S:
            scan.why = "time"
            return
        for record in await consumer.poll(timeout_s=1.0, records_max=500):
            scan.records += 1
            scan.size += len(record.key or b"") + len(record.value or b"")
            cursor[record.partition] = record.offset + 1
            seen = look(record)
            if seen is not None:
                found.append((record, seen))
            if len(found) >= ask["limit"]:
                scan.why = "enough"
                return
            if scan.records >= _SCAN_RECORDS or scan.size >= _SCAN_BYTES:
                scan.why = "bound"
                return
        for tp, offset in consumer.positions.items():
            cursor[tp.partition] = max(cursor[tp.partition], offset)


async def _places(
    scene: Scene, ask: Ask, topic: str, partitions: list[int]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """The offset to begin at in each partition, and its end now."""
    tps = [TopicPartition(topic, p) for p in partitions]
    if not tps:
        return {}, {}
    firsts = await _offsets(scene, dict.fromkeys(tps, EARLIEST))
    ends = await _offsets(scene, dict.fromkeys(tps, LATEST))
    tps = [tp for tp in tps if tp in firsts and tp in ends]
    ends = {tp: ends[tp] for tp in tps}
    if ask["cursor"]:
        begin = _cursor(ask["cursor"], topic)
        start = {tp: begin.get(tp, ends[tp]) for tp in tps}
    elif ask["from"] == "oldest":
        start = {tp: firsts[tp] for tp in tps}
    elif ask["from"] == "offset":
        start = dict.fromkeys(tps, ask["at"] or 0)
    elif ask["from"] == "time":
        found = await _offsets(scene, dict.fromkeys(tps, ask["at"] or 0))
        start = {tp: found[tp] if found.get(tp, -1) >= 0 else ends[tp] for tp in tps}
    else:
        each = -(-ask["limit"] // len(tps))
        start = {tp: ends[tp] - each for tp in tps}
    return {tp: min(max(firsts[tp], at), ends[tp]) for tp, at in start.items()}, ends


async def _offsets(scene: Scene, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    answers = await scene.admin.list_offsets(wanted, timeout_s=4)
    return {tp: answer.offset for tp, answer in answers.items() if not answer.error_code}


def _cursor(text: str, topic: str) -> dict[TopicPartition, int]:
    found = {}
    for part in text.split(","):
        p, colon, offset = part.partition(":")
        if not (colon and p.isdecimal() and offset.isdecimal() and len(part) < 40):
            raise Problem(400, "the cursor is not one of ours", fields=[{"field": "cursor"}])
        found[TopicPartition(topic, int(p))] = int(offset)
    return found


def _look(ask: Ask, cover: Cover | None) -> Callable[[Consumed], Consumed | None]:
    """The record as it may be seen, if it fits; what is masked cannot be searched for."""
    fits = _test(ask)

    def look(record: Consumed) -> Consumed | None:
        seen = cover.over(record) if cover else record
        return seen if fits(seen) else None

    return look


def _test(ask: Ask) -> Callable[[Consumed], bool]:
    """The filter that a request names."""
    key = (ask["key"] or "").encode("utf-8", "surrogatepass")
    text = (ask["q"] or "").encode("utf-8", "surrogatepass")
    try:
        path = paths.compiled(ask["path"]) if ask["path"] else None
    except paths.PathError as fault:
        fields = [{"field": "path", "message": str(fault)}]
        raise Problem(400, f"path {fault}", fields=fields) from None

    def fits(record: Consumed) -> bool:
        if key and key not in (record.key or b""):
            return False
        if text and text not in (record.value or b""):
            return False
        if path is None:
            return True
        try:
            return path(json.loads(record.value or b"null"))
        except (ValueError, RecursionError):
            return False

    return fits


async def settings(scene: Scene, ask: Ask) -> Json:
    """The settings of a topic, those that somebody chose first."""
    found = scene.topic(ask["topic"])
    resource = ConfigResource(ConfigResourceType.TOPIC, found.name)
    try:
        return {"name": found.name, "settings": await settings_of(scene, resource)}
    except KlammError:
        if found.is_doomed:
            return {"name": found.name, "settings": []}
        raise


def _records_twin(ask: Ask) -> str:
    start = {"oldest": "earliest", "newest": "latest"}.get(ask["from"], str(ask["at"] or 0))
    words: list[str | int] = ["consume", "--from", start, "-o", "json"]
    if ask["p"] is not None:
        words += ["-p", ask["p"]]
    return twins.command(*words, names=(ask["topic"],))


VIEWS: Final = (
    View(
        name="records",
        title="Records",
        path="/topics/{topic}/records",
        build=records,
        twin=_records_twin,
        params=(
            TOPIC,
            Param(
                name="from",
                about="where to begin",
                kind="choice",
                default="newest",
                choices=("newest", "oldest", "offset", "time"),
            ),
            Param(name="at", about="an offset, or a time in ms", kind="number"),
            Param(name="p", about="only this partition", kind="number", most=2**31 - 1),
            Param(name="key", about="part of a key"),
            Param(name="q", about="part of a value"),
            Param(name="path", about="such as $.customer.id == 7"),
            Param(
                name="as",
                about="how values are shown",
                kind="choice",
                default="text",
                choices=rendering.FORMS,
            ),
            Param(name="cursor", about="go on from here"),
            Param(name="full", about="64 KB of a value and not 2", kind="flag", default=False),
            Param(name="limit", about="records", kind="number", default=50, least=1, most=100),
        ),
        live=False,
        secret=True,
        about="Records of a topic: from newest, oldest, an offset or a time, searched.",
    ),
    View(
        name="settings",
        title="Settings",
        path="/topics/{topic}/settings",
        build=settings,
        twin=lambda ask: twins.command("configs", "get", "--all", "-t", ask["topic"]),
        params=(TOPIC,),
        live=False,
        about="The settings of a topic: value, where it comes from, default, meaning.",
    ),
)
