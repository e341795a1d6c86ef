"""Produce requests that begin as one before: the short way through the broker.

What `api/produce.py` finds out of a request by reading it is known here, but for the records and
who leads the partition now. The append is the same, with all its checks; the answer to one that
went well is a form in which the offsets change. What is out of the ordinary is answered at length,
or left to the other page altogether.
"""

from __future__ import annotations

from klamm.broker.api.produce import append, as_result, reply_of
from klamm.broker.coordinators.transaction_openings import is_transactional
from klamm.broker.net.connection import Peer
from klamm.broker.net.context import RequestContext
from klamm.broker.net.promises import Receipt
from klamm.broker.net.replies import Reply
from klamm.broker.parts import Parts
from klamm.broker.replicas.partition import Partition
from klamm.log.append import Appended, Later
from klamm.model.errors import ErrorCode
from klamm.protocol.beginnings import Beginning, Recognised
from klamm.protocol.produce import PartitionResult, TopicResult


def serve(parts: Parts, peer: Peer, request: Recognised) -> bytes | Reply | Receipt | None:
    """The answer, or the promise of one; None when the request has to be looked at with care."""
    beginning, correlation_id, records = request
    partition = parts.replicas.partitions.get(beginning.place)
    if partition is None or parts.quotas.is_active or is_transactional(records):
        return None
    outcome = append(parts, partition, beginning.version, records, beginning.acks)
    if isinstance(outcome, Later):
        return None
    if isinstance(outcome, Appended):
        if beginning.acks == 1:
            return _in_form(beginning, correlation_id, outcome)
        if beginning.acks == -1:
            return _Unconfirmed(parts, peer, partition, outcome).begin(beginning, correlation_id)
    result = as_result(parts, partition, outcome)
    return _at_length(parts, peer, beginning, correlation_id, result)


def _in_form(beginning: Beginning, correlation_id: int, appended: Appended) -> bytes:
    base_offset, _, log_start, time_ms, _ = appended
    return beginning.answer(correlation_id, base_offset, time_ms, log_start)


def _at_length(
    parts: Parts, peer: Peer, beginning: Beginning, correlation_id: int, result: PartitionResult
) -> Reply:
    """What is said when something went wrong, or the client wants to hear nothing."""
    context = RequestContext(beginning.header._replace(correlation_id=correlation_id), peer)
    topics = [TopicResult(beginning.place.topic, [result])]
    return reply_of(parts, context, beginning.acks, topics, 0)


class _Unconfirmed:
    """An append until all replicas in sync have its records, or it is too late for that."""

    __slots__ = (
        "_appended",
        "_beginning",
        "_correlation_id",
        "_partition",
        "_parts",
        "_peer",
        "_receipt",
        "_reply",
    )

    def __init__(self, parts: Parts, peer: Peer, partition: Partition, appended: Appended) -> None:
        self._parts = parts
        self._peer = peer
        self._partition = partition
        self._appended = appended
        self._reply: Reply | None = None
        self._receipt: Receipt | None = None

    def begin(self, beginning: Beginning, correlation_id: int) -> Reply | Receipt:
        self._beginning = beginning
        self._correlation_id = correlation_id
        partition = self._partition
        assert partition.log is not None, partition
        # A retry of a batch waits as the batch itself did, so the log's end will do for both.
        partition.await_acks(partition.log.log_end_offset, self)
        if self._reply is not None:
            return self._reply
        self._receipt = Receipt(self._drop)
        self._peer.alarm.set(max(beginning.timeout_ms, 0) / 1000, self._expire)
        return self._receipt

    @property
    def is_over(self) -> bool:
        return self._reply is not None

    def settled(self, partition: Partition, code: ErrorCode) -> None:
        if self._reply is not None:
            return
        beginning, correlation_id = self._beginning, self._correlation_id
        if code is ErrorCode.NONE:
            self._reply = Reply((_in_form(beginning, correlation_id, self._appended),))
        else:
            result = as_result(self._parts, partition, self._appended)._replace(error_code=code)
            self._reply = _at_length(self._parts, self._peer, beginning, correlation_id, result)
        if self._receipt is not None:
            self._peer.alarm.stop(self._expire)
            self._receipt.keep(self._reply)

    def _expire(self) -> None:
        """The records stay in the log; that all replicas have them was not seen in time."""
        self.settled(self._partition, ErrorCode.REQUEST_TIMED_OUT)
        self._partition.forget_over()

    def _drop(self) -> None:
        """The client has gone; nothing is left to tell."""
        self._peer.alarm.stop(self._expire)
        self._reply = Reply()
