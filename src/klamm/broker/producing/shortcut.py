"""Produce requests that begin as one before: the short way through the broker.

What `api/produce.py` finds out of a request by reading it is known here, but for the records and
who leads the partition now. The append is the same, with all its checks; the answer to one that
went well is a form in which the offsets change. What is out of the ordinary is answered at length,
or left to the other page altogether.
"""

from __future__ import annotations

from typing import Final

from klamm.broker.coordinators.transaction_openings import is_transactional
from klamm.broker.net.context import RequestContext
from klamm.broker.net.peer import Peer
from klamm.broker.net.promises import Receipt
from klamm.broker.net.replies import Reply
from klamm.broker.producing.appending import append, as_result, reply_of
from klamm.broker.producing.confirmation import Confirmation
from klamm.broker.replicas.hosting import Hosting
from klamm.broker.replicas.partition import Partition
from klamm.log.writing.append import Appended, Later
from klamm.model.errors import ErrorCode
from klamm.protocol.apis import ApiKey
from klamm.protocol.beginnings import Beginning, Beginnings, Recognised
from klamm.protocol.frames import RequestHeader
from klamm.protocol.produce import PartitionResult, TopicResult


class ProduceShortcut:
    """Answers the Produces of one broker that begin as one before (a `router.Shortcut`)."""

    api_key: Final = ApiKey.PRODUCE

    def __init__(self, hosting: Hosting) -> None:
        self._hosting = hosting

    def learn(self, peer: Peer, frame: memoryview, header: RequestHeader) -> None:
        """Remember how a Produce begins that was not recognised."""
        if header.api_key == ApiKey.PRODUCE:
            known = peer.memory
            beginnings = known if isinstance(known, Beginnings) else Beginnings()
            beginnings.learn(frame, header)
            peer.memory = beginnings

    def answer(self, peer: Peer, request: Recognised) -> bytes | Reply | Receipt | None:
        """The answer, or the promise of one; None when the request has to be read with care."""
        hosting = self._hosting
        beginning, correlation_id, records = request
        partition = hosting.replicas.partitions.get(beginning.place)
        if partition is None or hosting.quotas.is_active or is_transactional(records):
            return None
        access = hosting.access
        if not access.is_open and not access.may_write(peer, beginning.place.topic):
            return None
        outcome = append(hosting, partition, beginning.version, records, beginning.acks)
        if isinstance(outcome, Later):
            return None
        if isinstance(outcome, Appended):
            if beginning.acks == 1:
                base_offset, _, log_start, time_ms, _ = outcome
                return beginning.answer(correlation_id, base_offset, time_ms, log_start)
            if beginning.acks == -1:
                told = _Told(hosting, peer, beginning, correlation_id, outcome)
                waiting = Confirmation(peer, told)
                waiting.expect(partition, partition)
                return waiting.begin(beginning.timeout_ms)
        result = as_result(hosting, partition, outcome)
        return _at_length(hosting, peer, beginning, correlation_id, result)


class _Told:
    """The answer to one append: the form, unless something went wrong."""

    __slots__ = ("_appended", "_beginning", "_correlation_id", "_hosting", "_peer", "_result")

    def __init__(
        self,
        hosting: Hosting,
        peer: Peer,
        beginning: Beginning,
        correlation_id: int,
        appended: Appended,
    ) -> None:
        self._hosting = hosting
        self._peer = peer
        self._beginning = beginning
        self._correlation_id = correlation_id
        self._appended = appended
        self._result: PartitionResult | None = None  # where it failed

    def failed(self, place: Partition, code: ErrorCode) -> None:
        result = as_result(self._hosting, place, self._appended)
        self._result = result._replace(error_code=code)

    def reply(self) -> Reply:
        beginning, correlation_id = self._beginning, self._correlation_id
        if self._result is not None:
            return _at_length(self._hosting, self._peer, beginning, correlation_id, self._result)
        base_offset, _, log_start, time_ms, _ = self._appended
        return Reply((beginning.answer(correlation_id, base_offset, time_ms, log_start),))


def _at_length(
    hosting: Hosting, peer: Peer, beginning: Beginning, correlation_id: int, result: PartitionResult
) -> Reply:
    """The answer when something went wrong, or the client wants to hear nothing."""
    context = RequestContext(beginning.header._replace(correlation_id=correlation_id), peer)
    topics = [TopicResult(beginning.place.topic, [result])]
    return reply_of(hosting, context, beginning.acks, topics, 0)
