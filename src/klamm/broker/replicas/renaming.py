"""Gives logs the names under which a controller orders them to be led and followed.

Two topics may have exchanged their names while this broker was away, or just now: the controller
orders about both, and the ids of topics in the logs tell which log is whose. A partition whose log
gets another name ends under the old one, as one that is stopped, before it begins under the new.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from klamm.broker.ground import Ground
from klamm.broker.replicas.fetchers import Fetchers
from klamm.broker.replicas.orders import Order
from klamm.broker.replicas.partition import Partition
from klamm.broker.storage.logs import Logs
from klamm.log.disk.failure import StorageTrouble
from klamm.log.settings import LogSettings
from klamm.model.names import ZERO_ID, TopicPartition

log = logging.getLogger(__name__)


class Renaming:
    """The logs of one broker, as far as their names are not those that are ordered about."""

    def __init__(self, ground: Ground, logs: Logs, fetchers: Fetchers) -> None:
        self.on_renamed: list[Callable[[], None]] = []
        self._ground = ground
        self._logs = logs
        self._fetchers = fetchers

    async def settle(
        self,
        orders: Iterable[Order],
        settings: Mapping[str, LogSettings],
        end: Callable[[TopicPartition], Partition | None],
    ) -> None:
        """Rename what is to be renamed; `end` takes a partition out of those that are hosted."""
        wanted = {
            (order.topic_id, order.topic_partition.partition): order.topic_partition
            for order in orders
            if order.topic_id != ZERO_ID
            and not order.state.is_new
            and self._is_elsewhere(order)
            and self._ground.id in order.state.replicas
        }
        moves = self._logs.renames(wanted) if wanted else {}
        if not moves:
            return
        for old in moves:
            self._fetchers.remove(old)
            partition = end(old)
            if partition is not None:
                partition.stop()
        try:
            self._logs.rename(moves, begin=True)
            await self._ground.in_worker(partial(self._logs.rename, moves, begin=False))
        except StorageTrouble as trouble:
            self._ground.storage_trouble(trouble)
        for new in moves.values():
            local = self._logs.get(new)
            if local is not None and new.topic in settings:
                local.settings = settings[new.topic]
        log.info(
            "logs have other names now",
            extra={"renamed": {str(old): str(new) for old, new in moves.items()}},
        )
        # Both ends of a fetch session know partitions by names.
        self._fetchers.begin_sessions()
        for hook in self.on_renamed:
            hook()

    def _is_elsewhere(self, order: Order) -> bool:
        """Whether no log, or that of another topic, has the name of an order."""
        local = self._logs.get(order.topic_partition)
        return local is None or local.topic_id not in (None, ZERO_ID, order.topic_id)
