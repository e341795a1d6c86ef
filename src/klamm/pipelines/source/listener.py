"""Lag of a running query, and group commits at the moment a micro-batch is done.

Spark tells a source that a micro-batch is over only when it makes the next one. This listener hears
of it at once: it commits the end offsets to a consumer group and keeps the lag of every partition,
which is what monitoring by consumer group expects to find.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from klamm.client.blocking.lookup import Lookup
from klamm.client.errors import Answered, Unreachable
from klamm.client.settings import parse_connection
from klamm.model.names import TopicPartition
from klamm.pipelines.source.ranges import StreamOffsets
from klamm.pipelines.source.stream import commit_to_group

log = logging.getLogger(__name__)


class KlammProgressListener(StreamingQueryListener):
    """`spark.streams.addListener(KlammProgressListener("host:9092", group="orders"))`."""

    def __init__(
        self, bootstrap: str, group: str | None = None, properties: Mapping[str, str] | None = None
    ) -> None:
        """`properties` are those of a Kafka client: TLS and SASL of a cluster that wants them."""
        self._lookup = Lookup(parse_connection(bootstrap, properties or {}))
        self._group = group
        self.lag: dict[TopicPartition, int] = {}

    def onQueryStarted(self, event: Any) -> None:
        """Nothing to do."""

    def onQueryIdle(self, event: Any) -> None:
        """Nothing to do."""

    def onQueryTerminated(self, event: Any) -> None:
        """Nothing to do."""

    def onQueryProgress(self, event: Any) -> None:
        """Takes the lag and commits."""
        for source in event.progress.sources:
            end, latest = _offsets(source.endOffset), _offsets(source.latestOffset)
            if end is None:
                continue
            if latest is not None:
                self.lag |= lag(end, latest)
            self._commit(end)

    def _commit(self, end: StreamOffsets) -> None:
        if self._group is None:
            return
        try:
            commit_to_group(self._lookup, self._group, end.offsets)
        except (Unreachable, Answered) as fault:
            log.warning("offsets were not committed to group %s: %s", self._group, fault)


def lag(end: StreamOffsets, latest: StreamOffsets) -> dict[TopicPartition, int]:
    """The number of offsets of each partition still to be read."""
    return {tp: max(o - end.offsets.get(tp, 0), 0) for tp, o in latest.offsets.items()}


def _offsets(text: str | None) -> StreamOffsets | None:
    """The offsets in a progress report, when they are ours."""
    try:
        found = json.loads(text or "null")
    except ValueError:
        return None
    if not isinstance(found, dict) or set(found) != {"ids", "topics", "v"}:
        return None
    return StreamOffsets.from_json(found)
