"""Takes stock of a log directory: logs with files, logs on paper, and what is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from klamm.log.disk.failure import LogRefused
from klamm.log.disk.register import Entry
from klamm.log.partition import PartitionLog
from klamm.log.recovery.opening import Content, Found, Remembered
from klamm.model.names import TopicPartition

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class Stock:
    """The logs of one directory as an earlier life has left them."""

    logs: dict[TopicPartition, PartitionLog] = field(default_factory=dict)
    futures: dict[TopicPartition, PartitionLog] = field(default_factory=dict)
    missing: dict[TopicPartition, int] = field(default_factory=dict)  # ends that are gone
    not_logs: list[str] = field(default_factory=list)
    on_paper: dict[TopicPartition, Entry] = field(default_factory=dict)


def take_stock(
    content: Content,
    registered: Mapping[TopicPartition, Entry],
    remembered: Remembered,
    load: Callable[[Found], PartitionLog],
    progress: Progress | None,
) -> Stock:
    """Loads what is there, and tells what is not."""
    stock = Stock(not_logs=content.not_logs)
    for count, found in enumerate(content.logs, 1):
        try:
            log = load(found)
        except LogRefused:
            stock.not_logs.append(found.path)
            continue
        (stock.futures if found.is_future else stock.logs)[found.partition] = log
        if log.damage is not None and log.damage.at_rest and not found.is_future:
            stock.missing[found.partition] = log.damage.log_end + log.damage.missing
        if progress is not None:
            progress(count, len(content.logs))
    for partition, entry in registered.items():
        if partition in stock.logs:
            continue
        stock.on_paper[partition] = entry
        end = remembered.end_of(partition)
        if (entry.is_begun or end) and str(partition) not in content.put_aside:
            # It had records once, and somebody has taken its directory away.
            stock.missing[partition] = max(end, 1)
    stock.missing |= remembered.gone(content, stock.logs.keys() | stock.on_paper.keys())
    return stock
