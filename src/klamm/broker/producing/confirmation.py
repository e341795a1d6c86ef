"""Requests with acks=all: from their appends until all replicas in sync have the records.

Each append is acknowledged by its partition, in the order in which its batches were appended; the
last one of a request makes the reply. What is not acknowledged in time is answered with
REQUEST_TIMED_OUT: the records stay in the log, it was only not seen in time that all replicas have
them.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from klamm.broker.net.peer import Peer
from klamm.broker.net.promises import Receipt
from klamm.broker.net.replies import Reply
from klamm.broker.replicas.partition import Partition
from klamm.model.errors import ErrorCode

P_contra = TypeVar("P_contra", contravariant=True)
P = TypeVar("P")


class Told(Protocol[P_contra]):
    """Whoever hears the outcome of a request."""

    def failed(self, place: P_contra, code: ErrorCode) -> None:
        """The append in this place was not confirmed."""
        ...

    def reply(self) -> Reply:
        """The reply, now that every append is acknowledged."""
        ...


class Confirmation(Generic[P]):
    """One request whose appends wait for all replicas in sync (an `AckWaiter`)."""

    __slots__ = ("_open", "_peer", "_receipt", "_told")

    def __init__(self, peer: Peer, told: Told[P]) -> None:
        self._peer = peer
        self._told = told
        # Of each partition the appends in their order: a request may name one twice.
        self._open: dict[Partition, list[tuple[int, P]]] = {}
        self._receipt: Receipt | None = None

    def expect(self, partition: Partition, place: P) -> None:
        """Wait for what was appended to this partition just now."""
        assert partition.log is not None, partition
        # A retry of a batch waits as the batch itself did, so the log's end will do for both.
        append = (partition.log.log_end_offset, place)
        known = self._open.get(partition)
        if known is None:
            self._open[partition] = [append]
        else:
            known.append(append)

    def begin(self, timeout_ms: int) -> Reply | Receipt:
        """The reply, or the promise of one."""
        for partition, appends in list(self._open.items()):
            for offset_end, _ in list(appends):
                partition.await_acks(offset_end, self)
        if not self._open:
            return self._told.reply()
        self._receipt = Receipt(self._drop)
        self._peer.alarm.set(max(timeout_ms, 0) / 1000, self._expire)
        return self._receipt

    @property
    def is_over(self) -> bool:
        return not self._open

    def acknowledged(self, partition: Partition, code: ErrorCode) -> None:
        appends = self._open.get(partition)
        if appends is None:
            return
        _, place = appends.pop(0)
        if not appends:
            del self._open[partition]
        if code is not ErrorCode.NONE:
            self._told.failed(place, code)
        if not self._open and self._receipt is not None:
            self._peer.alarm.stop(self._expire)
            self._receipt.keep(self._told.reply())

    def _expire(self) -> None:
        late = list(self._open.items())
        for partition, appends in late:
            for _ in range(len(appends)):
                self.acknowledged(partition, ErrorCode.REQUEST_TIMED_OUT)
        for partition, _ in late:
            partition.forget_over()

    def _drop(self) -> None:
        """The client has gone; nothing is left to tell."""
        self._peer.alarm.stop(self._expire)
        self._open.clear()
