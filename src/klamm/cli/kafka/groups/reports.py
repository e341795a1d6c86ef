"""The tables of `klamm kafka-consumer-groups`, with the widths that Kafka's tool gives them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from klamm.cli.groups.views import GroupView, MemberView
from klamm.client.metadata import BrokerNode
from klamm.model.names import TopicPartition

_MISSING = "-"


class Row(NamedTuple):
    """One partition of a group."""

    group: str
    tp: TopicPartition
    offset: int | None
    end: int | None
    consumer: str = _MISSING
    host: str = _MISSING
    client: str = _MISSING

    @property
    def cells(self) -> tuple[str, ...]:
        lag = None if self.offset is None or self.end is None else self.end - self.offset
        numbers = (_text(number) for number in (self.offset, self.end, lag))
        place = (self.tp.topic, str(self.tp.partition))
        return (self.group, *place, *numbers, self.consumer, self.host, self.client)


def offset_lines(rows: Sequence[Row]) -> list[str]:
    """The position of a group in each partition."""
    titles = "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID"
    table = [tuple(titles.split()), *(row.cells for row in rows)]
    cells = table[1:]
    wide = (_width(cells, 0), _width(cells, 1), 10, 15, 15, 15, _width(cells, 6), _width(cells, 7))
    # Kafka's tool breaks the line before each row, not after.
    return ["", *(f"{_padded(row[:-1], wide)} {row[-1]}" for row in table)]


def member_lines(view: GroupView, *, verbose: bool) -> list[str]:
    """The members of a group; the column of instances is there where one has a name."""
    members = [_member(view.group, member) for member in view.members]
    named = any(row[2] for row in members)
    titles = ("GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS")
    least = (15, 15, 17, 15, 15)
    wide = [*(_width(members, at, width) for at, width in enumerate(least)), 15]
    assignments = ["ASSIGNMENT", *(assignment(member) for member in view.members)]
    lines = [""]
    for row, more in zip((titles, *members), assignments, strict=True):
        shown = [at for at in range(6) if named or at != 2]
        line = _padded([row[at] for at in shown], [wide[at] for at in shown])
        lines.append(f"{line} {more if verbose else ''}")
    return lines


def _member(group: str, member: MemberView) -> tuple[str, ...]:
    count = str(sum(map(len, member.partitions.values())))
    return (group, member.id, member.instance or "", member.host, member.client, count)


def assignment(member: MemberView) -> str:
    """The partitions of a member, a pair of brackets for each topic."""
    parts = (
        "(" + ",".join(sorted(map(str, numbers))) + ")"
        for numbers in member.partitions.values()
        if numbers
    )
    return ", ".join(sorted(parts)) or _MISSING


def state_lines(view: GroupView, coordinator: str) -> list[str]:
    """The state of a group, in one row."""
    wide = (max(25, len(coordinator)), 25, 20, 15)
    titles = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE")
    row = (view.group, coordinator, view.assignor, view.state)
    return [
        "",
        f"{_padded(titles, wide)} #MEMBERS",
        f"{_padded(row, wide)} {len(view.members)}",
    ]


def coordinator_text(node: BrokerNode) -> str:
    """A coordinator, by its address and number."""
    return f"{node.host}:{node.port}  ({node.id})"


def _width(rows: Iterable[Sequence[str]], at: int, least: int = 15) -> int:
    return max([least, *(len(row[at]) for row in rows)])


def _padded(cells: Sequence[str], wide: Sequence[int]) -> str:
    return " ".join(f"{cell:{width}}" for cell, width in zip(cells, wide, strict=True))


def _text(number: int | None) -> str:
    return _MISSING if number is None else str(number)
