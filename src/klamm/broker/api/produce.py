"""Produce (0), versions 0-11: records go into the logs of the partitions led here.

The bytes are handled where they arrived: a batch is checked and stamped in the connection's buffer
and written from there. With acks=1 the answer leaves at once, with acks=all when every replica in
sync has the records, with acks=0 never: a failure then closes the connection, so that the producer
looks for the leader again.

The first batch of a transaction in a partition is appended when the transaction's coordinator has
said that the partition is part of it (KIP-890, `transaction.partition.verification.enable`).

A batch that takes long to look through, because it is compressed or has very many records, is
copied and looked through by another thread; then it is appended as all are. So are the message sets
of versions 0-2, which are made batches there first.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Generator, Mapping
from typing import Final, NamedTuple

from klamm.broker.coordinators.transaction_openings import (
    NOT_VERIFIED,
    Opening,
    ask_coordinator,
    is_transactional,
    openings,
)
from klamm.broker.net.context import RequestContext
from klamm.broker.net.peer import Answer
from klamm.broker.net.promises import Receipt
from klamm.broker.net.replies import Reply
from klamm.broker.net.turns import finished
from klamm.broker.parts import Parts
from klamm.broker.producing.appending import append, as_result, count, not_here, reply_of
from klamm.broker.producing.confirmation import Confirmation
from klamm.broker.replicas.partition import Partition
from klamm.broker.storage.openers import opened
from klamm.log.partition import StorageTrouble
from klamm.log.writing.append import LATER, Appended, AppendRefused, Later
from klamm.model.errors import ErrorCode, ProtocolError
from klamm.model.names import INTERNAL_TOPICS, INTERNAL_WRITER, TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.message_sets.up import is_message_set
from klamm.protocol.messages import produce as messages
from klamm.protocol.produce import (
    PartitionResult,
    ProduceRequest,
    TopicResult,
    parse_request,
)
from klamm.security.authorization.apis import need_of

_TRANSACTION: Final = need_of(ApiKey.PRODUCE, "transaction")
_TOPIC: Final = need_of(ApiKey.PRODUCE, "topic")

log = logging.getLogger(__name__)

# A reply, one that waits for the followers only, or the rest of the work.
_Outcome = Reply | Receipt | Coroutine[None, None, Reply | Receipt]

_ACKS: Final = frozenset({-1, 0, 1})
# So many partitions are written to in one go; more let others in between.
_AT_ONCE_MAX: Final = 256
_BATCHES_SINCE: Final = 3  # before this version there are message sets
_SIZE_AT_ONCE_MAX: Final = 8 << 20  # to several partitions, as much as takes some milliseconds


def serve(parts: Parts, context: RequestContext, body: memoryview) -> Answer:
    request = parse_request(context.version, body, parts.bounds.items_of_produce)
    if request.transactional_id is not None and _may_open(parts, context, request):
        opening = openings(parts, request)
        if opening:
            # The connection's buffer is not ours for as long as a question takes.
            kept = memoryview(bytearray(body))
            return _append_verified(parts, context, kept, request.transactional_id, opening)
    topics = request.topics
    if len(body) > _SIZE_AT_ONCE_MAX and topics and len(topics) + len(topics[0][1]) > 2:
        return _append_in_turns(parts, context, request, len(body))
    if len(topics) > 1 and sum(len(partitions) for _, partitions in topics) > _AT_ONCE_MAX:
        return _append_in_turns(parts, context, request, len(body))
    if topics and len(topics[0][1]) > _AT_ONCE_MAX:
        return _append_in_turns(parts, context, request, len(body))
    return _append_all(parts, context, request, len(body), {})


async def _append_in_turns(
    parts: Parts, context: RequestContext, request: ProduceRequest, size: int
) -> Reply:
    """The same for very many partitions. The frame is ours until it is answered."""
    return await _whole(await finished(_append_steps(parts, context, request, size, {})))


async def _append_verified(
    parts: Parts,
    context: RequestContext,
    body: memoryview,
    transactional_id: str,
    opening: Mapping[TopicPartition, Opening],
) -> Reply:
    await ask_coordinator(parts.coordinators.verifier, transactional_id, opening)
    request = parse_request(context.version, body)
    return await _whole(_append_all(parts, context, request, len(body), opening))


async def _whole(outcome: _Outcome) -> Reply:
    """The reply itself, whatever it waits for."""
    if not isinstance(outcome, Reply | Receipt):
        outcome = await outcome
    return outcome if isinstance(outcome, Reply) else await outcome.outcome()


def _append_all(
    parts: Parts,
    context: RequestContext,
    request: ProduceRequest,
    size: int,
    opening: Mapping[TopicPartition, Opening],
) -> _Outcome:
    steps = _append_steps(parts, context, request, size, opening)
    try:
        while True:
            next(steps)
    except StopIteration as end:
        answer: _Outcome = end.value
        return answer


def _append_steps(
    parts: Parts,
    context: RequestContext,
    request: ProduceRequest,
    size: int,
    opening: Mapping[TopicPartition, Opening],
) -> Generator[None, None, _Outcome]:
    """The work in steps: one partition each."""
    acks = request.acks
    refusal = _refusal(request) or _transaction_denial(parts, context, request)
    writable = parts.access.allowed(context, _TOPIC)
    find = parts.replicas.find_leader
    topics: list[TopicResult] = []
    waiting: Confirmation[_Place] | None = None
    later: list[_Unlooked] = []
    for name, partitions in request.topics:
        results: list[PartitionResult] = []
        topics.append(TopicResult(name, results))
        fault = refusal
        if fault is None and name not in writable:
            fault = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if name in INTERNAL_TOPICS:
            fault = fault or _internal_fault(context)
        for index, records in partitions:
            yield
            partition = fault or find(TopicPartition(name, index))
            if not isinstance(partition, Partition):
                if fault is None and _is_early(parts, request, name, index, records):
                    place = TopicPartition(name, index)
                    later.append(_Unlooked(place, _copy(records), results, len(results)))
                results.append(not_here(parts, name, index, partition))
                continue
            if opening and (verdict := opening.get(partition.topic_partition)) is not None:
                code = verdict.told_to_producers(partition, context.version)
                if code is not ErrorCode.NONE:
                    results.append(PartitionResult(index, code, error_message=NOT_VERIFIED))
                    continue
            outcome: Appended | AppendRefused | ErrorCode | Later
            if context.version < _BATCHES_SINCE and records is not None:
                outcome = LATER
            else:
                outcome = append(parts, partition, context.version, records, acks)
            if isinstance(outcome, Later):
                later.append(_Unlooked(partition, _copy(records), results, len(results)))
                results.append(PartitionResult(index))
                continue
            result = as_result(parts, partition, outcome)
            results.append(result)
            if acks == -1 and result[1] == 0:
                waiting = waiting or _confirmation(parts, context, acks, topics, size)
                waiting.expect(partition, (results, len(results) - 1))
    if later:
        waiting = waiting or _confirmation(parts, context, acks, topics, size)
        return _append_later(parts, context, acks, request.timeout_ms, waiting, later, opening)
    if waiting is not None:
        return waiting.begin(request.timeout_ms)
    return reply_of(parts, context, acks, topics, size)


# Where the result of an append stands: in which list, and where in it.
_Place = tuple[list[PartitionResult], int]


class _Told(NamedTuple):
    """The answer to a request: the results, as far as they are known."""

    parts: Parts
    context: RequestContext
    acks: int
    topics: list[TopicResult]
    size: int

    def failed(self, place: _Place, code: ErrorCode) -> None:
        results, at = place
        results[at] = results[at]._replace(error_code=code)

    def reply(self) -> Reply:
        return reply_of(self.parts, self.context, self.acks, self.topics, self.size)


def _confirmation(
    parts: Parts, context: RequestContext, acks: int, topics: list[TopicResult], size: int
) -> Confirmation[_Place]:
    return Confirmation(context.peer, _Told(parts, context, acks, topics, size))


class _Unlooked(NamedTuple):
    """A batch that was not looked through yet, and the place of its result."""

    partition: Partition | TopicPartition  # the latter is not here yet
    records: memoryview
    results: list[PartitionResult]
    at: int


def _copy(records: memoryview | None) -> memoryview:
    """The records in memory of their own: a thread may outlive the connection and its buffer."""
    assert records is not None, "what is not there is not looked through later"
    return memoryview(bytearray(records))


async def _append_later(
    parts: Parts,
    context: RequestContext,
    acks: int,
    timeout_ms: int,
    waiting: Confirmation[_Place],
    later: list[_Unlooked],
    opening: Mapping[TopicPartition, Opening],
) -> Reply | Receipt:
    """Look through these batches elsewhere, one by one, and append them."""
    for wanted, records, results, at in later:
        outcome: Appended | AppendRefused | ErrorCode
        partition = await _led(parts, wanted, timeout_ms)
        if not isinstance(partition, Partition):
            continue  # what stands in its place is that it is not here
        try:
            outcome = await _look_through_and_append(
                parts, partition, context, records, acks, opening
            )
        except StorageTrouble as trouble:
            parts.storage_trouble(trouble)
            outcome = ErrorCode.KAFKA_STORAGE_ERROR
        except Exception:
            log.exception("an append failed", extra={"partition": str(partition.topic_partition)})
            outcome = ErrorCode.UNKNOWN_SERVER_ERROR
        result = results[at] = as_result(parts, partition, outcome)
        if acks == -1 and result[1] == 0:
            waiting.expect(partition, (results, at))
    receipt = waiting.begin(timeout_ms)
    if isinstance(receipt, Receipt):
        receipt.then(_note)  # until the connection has taken it over
    return receipt


def _is_early(
    parts: Parts, request: ProduceRequest, topic: str, index: int, records: memoryview | None
) -> bool:
    """Whether this partition is about to be led here; transactions are asked for by what is."""
    return (
        records is not None
        and request.transactional_id is None
        and parts.replicas.coming.is_coming(TopicPartition(topic, index))
    )


async def _led(
    parts: Parts, wanted: Partition | TopicPartition, timeout_ms: int
) -> Partition | ErrorCode:
    """A partition; one that is on its way here, when it is led."""
    if isinstance(wanted, Partition):
        return wanted
    await parts.replicas.coming.arrival((wanted,), timeout_ms)
    return parts.replicas.find_leader(wanted)


def _note(_: Reply | Exception) -> None:
    """A receipt remembers by itself that it was kept."""


async def _look_through_and_append(
    parts: Parts,
    partition: Partition,
    context: RequestContext,
    records: memoryview,
    acks: int,
    opening: Mapping[TopicPartition, Opening],
) -> Appended | AppendRefused | ErrorCode:
    if context.version < _BATCHES_SINCE and is_message_set(records):
        batch = await _upgraded(partition, records)
        if not isinstance(batch, memoryview):
            return batch
        records = batch
    work = partition.inspector(records, context.version)
    if isinstance(work, ErrorCode):
        return work
    inspected = await opened(work)
    if isinstance(inspected, AppendRefused):
        return inspected
    verdict = opening.get(partition.topic_partition)
    if verdict is not None:  # a marker may have come meanwhile
        code = verdict.told_to_producers(partition, context.version)
        if code is not ErrorCode.NONE:
            return AppendRefused(code, NOT_VERIFIED)
    outcome = partition.append_inspected(inspected, acks=acks)
    if isinstance(outcome, Appended):
        count(parts, outcome, len(records))
    return outcome


async def _upgraded(
    partition: Partition, messages: memoryview
) -> memoryview | Appended | AppendRefused | ErrorCode:
    """The batch for a message set, or what its sender is told instead."""
    work = partition.upgrader(messages)
    if isinstance(work, ErrorCode):
        return work
    batch = await opened(work)
    if batch is None:
        # As in Kafka: where there is no whole message, nothing is written, and nothing is wrong.
        start = partition.log.log_start_offset if partition.log is not None else -1
        return Appended(-1, -1, start, is_duplicate=True)
    return batch


def _internal_fault(context: RequestContext) -> ErrorCode | None:
    """The reason why a client may not write to an internal topic, if it may not."""
    if context.client_id != INTERNAL_WRITER:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return None if context.peer.is_broker else ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _may_open(parts: Parts, context: RequestContext, request: ProduceRequest) -> bool:
    """Whether the coordinator is asked about a transaction: not for who will be refused anyway."""
    if parts.access.is_open:
        return True
    permissions = parts.access.permissions(context)
    return _TRANSACTION.is_met(permissions, request.transactional_id or "") and all(
        _TOPIC.is_met(permissions, name) for name, _ in request.topics
    )


def _transaction_denial(
    parts: Parts, context: RequestContext, request: ProduceRequest
) -> ErrorCode | None:
    """The denial of a transactional id, where records are under one."""
    if parts.access.is_open or request.transactional_id is None or not _has_transaction(request):
        return None
    return parts.access.refusal(context, _TRANSACTION, request.transactional_id)


def _has_transaction(request: ProduceRequest) -> bool:
    return any(
        records is not None and is_transactional(records)
        for _, partitions in request.topics
        for _, records in partitions
    )


def _refusal(request: ProduceRequest) -> ErrorCode | None:
    """The reason why the whole request fails, if it does."""
    if request.acks not in _ACKS:
        return ErrorCode.INVALID_REQUIRED_ACKS
    if request.transactional_id is None and _has_transaction(request):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return None


def failure(request: messages.Request, code: ErrorCode, message: str | None) -> messages.Response:
    """Every partition fails; with acks=0 nobody waits to hear of it."""
    if request.acks == 0:
        raise ProtocolError("a request without an answer is refused")
    return messages.Response(
        responses=[
            messages.TopicProduceResponse(
                topic.name,
                [
                    messages.PartitionProduceResponse(
                        one.index, code, base_offset=-1, error_message=message
                    )
                    for one in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )
