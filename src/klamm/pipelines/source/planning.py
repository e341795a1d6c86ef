"""Plans the splits of a batch read; that of a stream is the matter of `stream`."""

from __future__ import annotations

import logging

from klamm.pipelines.source.options import ReadOptions
from klamm.pipelines.source.ranges import (
    DataLost,
    Split,
    cut_losses,
    losses,
    plan_splits,
    shortfalls,
)
from klamm.pipelines.source.selection import (
    bytes_per_offset,
    check_order,
    ids_of,
    lookup_of,
    partitions_of,
    ranges_of,
    require_topics,
    resolve,
    view_of,
)

log = logging.getLogger(__name__)


def plan_batch(options: ReadOptions) -> list[Split]:
    """The splits of a batch read."""
    lookup = lookup_of(options)
    view = view_of(options, lookup)
    require_topics(options, view, lookup)
    tps = partitions_of(options, view)
    start = resolve("startingOffsets", options.starting, tps, lookup)
    end = resolve("endingOffsets", options.ending, tps, lookup, committed=options.read_committed)
    check_order(options.ending, start, end)
    earliest = lookup.earliest(tps)
    lost = losses(start, end, earliest)
    if options.ending.offsets is not None:
        latest = lookup.latest(tps, committed=options.read_committed)
        lost += shortfalls(end, latest)
        end = {tp: min(offset, latest[tp]) for tp, offset in end.items()}
    if lost and options.fail_on_data_loss:
        raise DataLost(f"{'; '.join(lost)} (failOnDataLoss=false would read what is left)")
    if lost:
        log.warning("%s: going on, as failOnDataLoss=false asks", "; ".join(lost))
        start = cut_losses(start, end, earliest)
    rates = None
    if options.split_bytes_max is not None:
        rates = bytes_per_offset(lookup, earliest, lookup.latest(tps))
    return plan_splits(
        ranges_of(view, ids_of(view), start, end),
        records_max=options.split_records_max,
        bytes_max=options.split_bytes_max,
        splits_min=options.splits_min,
        bytes_per_offset=rates,
    )
