"""New offsets of a group, for `klamm kafka-consumer-groups --reset-offsets`."""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from klamm.cli.facts import known
from klamm.cli.groups import offsets as group_offsets
from klamm.cli.groups.views import GroupView, look_at
from klamm.cli.kafka import plans
from klamm.cli.kafka.options import Options
from klamm.cli.output import say
from klamm.client.aio.admin import Admin
from klamm.client.aio.groups import Groups
from klamm.model.errors import NotThere
from klamm.model.names import TopicPartition
from klamm.model.offsets import EARLIEST, LATEST

WAYS: Final = (
    *("to-offset", "to-datetime", "by-duration", "to-earliest", "to-latest", "to-current"),
    *("shift-by", "from-file"),
)
_DURATION: Final = re.compile(
    r"([+-]?)P(?:([+-]?\d{1,9})D)?(?:T(?=[\d+-])(?:([+-]?\d{1,9})H)?(?:([+-]?\d{1,9})M)?"
    r"(?:([+-]?\d{1,9}(?:\.\d{0,9})?)S)?)?",
    re.IGNORECASE,
)
_COLUMNS: Final = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")

Offsets = Mapping[TopicPartition, int]


class Misused(ValueError):
    """Something was asked for that makes no sense: the tool shows its options, and exits with 1."""


async def view_of(admin: Admin, name: str) -> GroupView:
    """A group; one that nobody knows is Dead, as brokers say to Kafka's tool."""
    try:
        return await look_at(Groups(admin.client), name)
    except NotThere:
        return GroupView(name, "classic", "Dead", "")


async def committed(admin: Admin, group: str) -> dict[TopicPartition, int]:
    """The offsets that a group has committed."""
    found = await Groups(admin.client).offsets(group)
    return {tp: e.committed_offset for tp, e in found.items() if e.committed_offset >= 0}


async def ends(
    admin: Admin, wanted: Iterable[TopicPartition], moment: int
) -> dict[TopicPartition, int]:
    """The offsets at a moment, of the partitions that exist."""
    there = await known(admin, wanted)
    return await group_offsets.offsets_at(admin, dict.fromkeys(there, moment))


async def partitions(admin: Admin, texts: Iterable[str]) -> tuple[list[TopicPartition], list[str]]:
    """The partitions that `topic` and `topic:0,1` name, and the topics that do not exist."""
    found: list[TopicPartition] = []
    whole = []
    for text in texts:
        if ":" in text:
            found += named(text)
        else:
            whole.append(text)
    topics = await admin.topics(whole) if whole else {}
    missing = [name for name in whole if name not in topics or topics[name].error_code]
    found += [
        TopicPartition(name, partition.partition_index)
        for name in whole
        if name not in missing
        for partition in sorted(topics[name].partitions, key=lambda p: p.partition_index)
    ]
    return found, missing


def named(text: str) -> list[TopicPartition]:
    """The partitions of one `topic:0,1`."""
    parts = text.split(":")
    if len(parts) != 2 or not parts[1]:
        raise Misused(f"Invalid topic arg '{text}', expected topic name and partitions")
    for number in parts[1].split(","):
        if not re.fullmatch(r"[0-9]{1,9}", number):
            raise Misused(f"Invalid partition '{number}' specified in topic arg '{text}''")
    return [TopicPartition(parts[0], int(number)) for number in parts[1].split(",")]


async def targets(admin: Admin, options: Options, group: str) -> dict[TopicPartition, int]:
    """The new offsets of a group."""
    wanted = await _scope(admin, options, group)
    (way,) = options.given(WAYS) or [""]
    match way:
        case "to-offset":
            offset = options.number("to-offset") or 0
            return await _in_range(admin, dict.fromkeys(wanted, offset))
        case "to-earliest" | "to-latest":
            moment = EARLIEST if way == "to-earliest" else LATEST
            return await _at(admin, wanted, moment)
        case "to-datetime":
            return await _at(admin, wanted, moment_of(options.one(way) or ""))
        case "by-duration":
            ago_ms = duration_ms(options.one(way) or "")
            return await _at(admin, wanted, int(time.time() * 1000) - ago_ms)
        case "to-current":
            standing = await committed(admin, group)
            late = await _at(admin, [tp for tp in wanted if tp not in standing], LATEST)
            return {tp: standing[tp] for tp in wanted if tp in standing} | late
        case "shift-by":
            return await _shifted(admin, group, wanted, options.number(way) or 0)
        case "from-file":
            text = plans.read(options.one(way))
            alone = options.all("group")[0] if len(options.all("group")) == 1 else None
            plan = read_csv(text, alone)
            if group not in plan:
                say("", f"Error: No reset plan for group {group} found")
            return await _in_range(admin, plan.get(group, {}))
        case _:
            listed = ", ".join(f"[{name}]" for name in WAYS)
            raise Misused(
                f"Option '[reset-offsets]' requires one of the following scenarios: [{listed}]"
            )


async def _scope(admin: Admin, options: Options, group: str) -> list[TopicPartition]:
    if "all-topics" in options:
        return sorted(await committed(admin, group))
    if "topic" in options:
        found, missing = await partitions(admin, options.all("topic"))
        if missing:
            raise ValueError(
                "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: "
                f"there is no topic {missing[0]!r}"
            )
        return found
    if "from-file" not in options:
        raise Misused("One of the reset scopes should be defined: --all-topics, --topic.")
    return []


async def _at(
    admin: Admin, wanted: Collection[TopicPartition], moment: int
) -> dict[TopicPartition, int]:
    found = await ends(admin, wanted, moment)
    if strange := [tp for tp in wanted if tp not in found]:
        raise ValueError(f"there is no partition {strange[0]}")
    late = [tp for tp, offset in found.items() if offset < 0]
    for tp in late:
        say(
            "",
            f"Warn: Partition {tp.partition} from topic {tp.topic} is empty. Falling back to "
            "latest known offset.",
        )
    return found | await ends(admin, late, LATEST)


async def _shifted(
    admin: Admin, group: str, wanted: Iterable[TopicPartition], by: int
) -> dict[TopicPartition, int]:
    standing = await committed(admin, group)
    moved = {}
    for tp in wanted:
        if tp not in standing:
            raise Misused(
                f"Cannot shift offset for partition {tp} since there is no current committed offset"
            )
        moved[tp] = standing[tp] + by
    return await _in_range(admin, moved)


async def _in_range(admin: Admin, wanted: Offsets) -> dict[TopicPartition, int]:
    """Offsets that are in the log, the nearest where what was asked for is not."""
    first = await _at(admin, list(wanted), EARLIEST)
    last = await _at(admin, list(wanted), LATEST)
    return {tp: min(max(offset, first[tp]), last[tp]) for tp, offset in wanted.items()}


async def commit(admin: Admin, group: str, wanted: Offsets) -> None:
    """Let a group stand at these offsets."""
    if wanted:
        await group_offsets.commit(admin, group, wanted)


def moment_of(text: str) -> int:
    """Milliseconds of `YYYY-MM-DDTHH:mm:SS.sss`, in UTC where no zone is named."""
    if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d(:?\d\d)?)?", text):
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return int(zoned.timestamp() * 1000)
    raise ValueError(f"Error parsing timestamp: {text!r} is not YYYY-MM-DDTHH:mm:SS.sss")


def duration_ms(text: str) -> int:
    """Milliseconds of `PnDTnHnMnS`."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()[1:]):
        raise ValueError(f"Text cannot be parsed to a Duration: {text!r}")
    sign, *parts = found.groups()
    units = zip(parts, (86_400, 3_600, 60, 1), strict=True)
    seconds = sum(float(part or 0) * unit for part, unit in units)
    return int(seconds * 1000) * (-1 if sign == "-" else 1)


def read_csv(text: str, alone: str | None) -> dict[str, dict[TopicPartition, int]]:
    """Offsets by group; where there is one group only, its name may be left out."""
    plan: dict[str, dict[TopicPartition, int]] = {}
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        if len(row) == 3 and alone is not None:
            row = [alone, *row]
        if len(row) != 4 or not all(re.fullmatch(r"[0-9]{1,18}", cell) for cell in row[2:]):
            raise ValueError(
                f"line {number} is not [group,]topic,partition,offset: {','.join(row)}"
            )
        plan.setdefault(row[0], {})[TopicPartition(row[1], int(row[2]))] = int(row[3])
    return plan


def csv_lines(plan: Mapping[str, Offsets], *, alone: bool) -> list[str]:
    """The plan as `--from-file` reads it."""
    return [
        ",".join([*([] if alone else [_quoted(group)]), _quoted(tp.topic), f"{tp.partition},{at}"])
        for group, offsets in sorted(plan.items())
        for tp, at in sorted(offsets.items())
    ]


def _quoted(text: str) -> str:
    special = any(mark in text for mark in '",\n ')
    return '"' + text.replace('"', '""') + '"' if special else text


def lines(plan: Mapping[str, Offsets]) -> list[str]:
    """The plan for people."""
    rows = [
        (group, tp.topic, str(tp.partition), str(at))
        for group, offsets in sorted(plan.items())
        for tp, at in sorted(offsets.items())
    ]
    return [f"{g:30} {t:30} {p:10} {o:15}" for g, t, p, o in (_COLUMNS, *rows)]
