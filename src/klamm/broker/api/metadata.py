"""Metadata (3), versions 0-12: who is in the cluster and who leads what.

Answered from the newest snapshot alone, once the broker has heard of all topics; a broker that has
just started lets a client wait for that. What was encoded for a snapshot once is kept with it, so a
hundred clients that ask for everything cost one encoding. A topic that is not there may be created
on the way (`auto.create.topics.enable`); such an answer is never kept.

A topic that the caller may not describe is told as such, whether it exists or not, where it was
named; where all topics are asked for it is left out. What was kept serves those with equal rights.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final, NamedTuple

from klamm.broker.admin.noting import tell_controller
from klamm.broker.metadata_cache import MetadataSnapshot, PartitionInfo
from klamm.broker.net.context import RequestContext
from klamm.broker.net.peer import Answer
from klamm.broker.net.replies import Reply
from klamm.broker.net.turns import LARGE, finished, in_turns, place_for
from klamm.broker.parts import Parts
from klamm.broker.quotas.charging import charge_time
from klamm.broker.quotas.quotas import QuotaClient
from klamm.broker.term.requesters import CREATION
from klamm.model.errors import ErrorCode
from klamm.model.names import NO_LEADER, ZERO_ID, is_internal, name_fault
from klamm.protocol import codec
from klamm.protocol.apis import ApiKey
from klamm.protocol.frames import encode_response_frame
from klamm.protocol.messages.metadata import (
    MetadataRequestTopic,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
    Request,
    Response,
)
from klamm.security.authorization.acls import CLUSTER_NAME, ResourceType
from klamm.security.authorization.apis import need_of

_TOPIC: Final = need_of(ApiKey.METADATA, "topic")
_ALL: Final = need_of(ApiKey.METADATA, "all topics")
_CREATE: Final = need_of(ApiKey.METADATA, "create")
_CLUSTER: Final = need_of(ApiKey.METADATA, "cluster operations", 8)

_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
# The version, the listener, the bytes, and whoever has the rights of whoever asked.
Question = tuple[int, str, bytes, tuple[str, str, int] | None]

_KEPT_MAX: Final = 64  # encoded answers a snapshot
_BY_ID_FROM: Final = 12
# So many topics are created by one question. Who asks for more is told that they are unknown, and
# asks again.
_CREATED_MAX: Final = 1_000
# So long a client waits for what the controller says first: less than clients wait for an answer.
_INTRODUCED_MS_MAX: Final = 8_000


def serve(parts: Parts, context: RequestContext, body: memoryview) -> Answer:
    if len(body) > LARGE:
        return _answer_large(parts, context, body)
    snapshot = parts.metadata.snapshot
    sharers = parts.access.sharers(context)
    question = (context.version, context.listener, bytes(body), sharers)
    encoded = None if sharers is None else snapshot.encoded.get(question)
    if encoded is None:
        request = _decoded(parts, context, body)
        kept = None if sharers is None else _Kept(snapshot, question)
        return _answer(parts, context, request, kept)
    # Known only now that the work is done. It is in the bytes, so those who wait cost it twice.
    wait_ms = charge_time(parts, context)
    if wait_ms:
        return _answer(parts, context, _decoded(parts, context, body), wait_ms=wait_ms)
    return Reply((encode_response_frame(context.header, encoded),), mute_ms=wait_ms)


def failure(request: Request, code: ErrorCode, message: str | None) -> Response:
    """Each topic that was named fails; nothing is told of the cluster."""
    topics = [MetadataResponseTopic(code, t.name, t.topic_id) for t in request.topics or ()]
    return Response(topics=topics)


def _decoded(parts: Parts, context: RequestContext, body: memoryview) -> Request:
    items_max = parts.bounds.items_of(ApiKey.METADATA)
    request: Request = codec.decode_request(ApiKey.METADATA, context.version, body, items_max)
    return request


async def _answer_large(parts: Parts, context: RequestContext, body: memoryview) -> Reply:
    """A question that names very many topics. Its answer is never kept."""
    async with place_for(ApiKey.METADATA, len(body)):
        steps = codec.decode_request_in_steps(
            ApiKey.METADATA, context.version, body, parts.bounds.items_of(ApiKey.METADATA)
        )
        return await _answer(parts, context, await finished(steps))


class _Kept(NamedTuple):
    """The cache of an answer for those that ask the same."""

    snapshot: MetadataSnapshot
    question: Question

    def keep(self, encoded: bytes) -> None:
        if len(self.snapshot.encoded) < _KEPT_MAX:
            self.snapshot.encoded[self.question] = encoded


async def _answer(
    parts: Parts,
    context: RequestContext,
    request: Request,
    kept: _Kept | None = None,
    wait_ms: int = 0,
) -> Reply:
    if not parts.metadata.is_introduced:
        # A broker that has just started would say that there is no topic at all.
        await parts.metadata.wait_for(lambda _: parts.metadata.is_introduced, _INTRODUCED_MS_MAX)
        kept = None
    shown = _Shown(parts, context)
    unknown = _to_create(parts, context, request, shown)
    if not parts.metadata.is_introduced:
        # Whether a topic is there is not known; clients ask again after this answer.
        untold = {t.name: ErrorCode.LEADER_NOT_AVAILABLE for t in request.topics or () if t.name}
        encoded = await _encode(parts, context, request, untold, shown, wait_ms)
    elif unknown:
        client = QuotaClient.of(context.principal, context.client_id)
        creatable = parts.access.allowed(context, _CREATE)
        faults = {name: _DENIED for name in unknown if name not in creatable}
        wanted = [name for name in unknown if name not in faults]
        if parts.is_controller:
            parts.controller.requesters.note(CREATION, wanted, context.asked_by)
        else:
            await tell_controller(parts, "creation", wanted, context.asked_by)
        made = await parts.auto_creation.create(wanted, client)
        parts.controller.requesters.drop(CREATION, made)
        faults |= made
        wait_ms = charge_time(parts, context)
        encoded = await _encode(parts, context, request, faults, shown, wait_ms)
    else:
        encoded = await _encode(parts, context, request, {}, shown, wait_ms)
        # A denial goes into the audit log each time.
        if kept is not None and not shown.has_denied:
            kept.keep(encoded)
        charged_ms = charge_time(parts, context) if not wait_ms else 0
        if charged_ms:
            wait_ms = charged_ms
            encoded = await _encode(parts, context, request, {}, shown, wait_ms)
    return Reply((encode_response_frame(context.header, encoded),), mute_ms=wait_ms)


class _Shown:
    """The topics that a caller may see, and what it may do with them."""

    def __init__(self, parts: Parts, context: RequestContext) -> None:
        self._access, self._context = parts.access, context
        self._named = parts.access.allowed(context, _TOPIC)
        self._all = parts.access.allowed(context, _ALL)
        self.has_denied = False

    def is_shown(self, name: str) -> bool:
        """Whether a topic that was asked for may be described."""
        is_shown = name in self._named
        self.has_denied |= not is_shown
        return is_shown

    def of_all(self, names: Iterable[str]) -> Iterable[str]:
        """Of all topics, those that may be described."""
        return (name for name in names if name in self._all)

    def operations(self, topic: str) -> int:
        return self._access.operations(self._context, ResourceType.TOPIC, topic)

    def cluster_operations(self) -> int:
        if not self._access.permits(self._context, _CLUSTER):
            return 0
        return self._access.operations(self._context, ResourceType.CLUSTER, CLUSTER_NAME)


def _to_create(parts: Parts, context: RequestContext, request: Request, shown: _Shown) -> list[str]:
    """The topics to create before answering."""
    if request.topics is None or not parts.settings.bool("auto.create.topics.enable"):
        return []
    if context.version >= 4 and not request.allow_auto_topic_creation:
        return []
    known = parts.metadata.snapshot.topics
    wanted = (
        topic.name
        for topic in request.topics
        if topic.name is not None
        and topic.topic_id == ZERO_ID
        and topic.name not in known
        and name_fault(topic.name) is None
        and shown.is_shown(topic.name)
    )
    return list(islice(wanted, _CREATED_MAX))


async def _encode(
    parts: Parts,
    context: RequestContext,
    request: Request,
    faults: Mapping[str, ErrorCode],
    shown: _Shown,
    wait_ms: int = 0,
) -> bytes:
    snapshot = parts.metadata.snapshot
    topics = _topics(snapshot, context, request, faults, shown)
    response = Response(
        throttle_time_ms=wait_ms,
        brokers=_brokers(snapshot, context.listener),
        cluster_id=parts.cluster_id,
        controller_id=snapshot.controller_id,
        topics=[topic async for topic in in_turns(topics)],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = shown.cluster_operations()
    return await finished(
        codec.encode_response_in_steps(ApiKey.METADATA, context.version, response)
    )


def _brokers(snapshot: MetadataSnapshot, listener: str) -> list[MetadataResponseBroker]:
    return [
        MetadataResponseBroker(broker.id, endpoint.host, endpoint.port, broker.rack)
        for broker in snapshot.brokers.values()
        if (endpoint := broker.endpoint(listener)) is not None
    ]


def _topics(
    snapshot: MetadataSnapshot,
    context: RequestContext,
    request: Request,
    faults: Mapping[str, ErrorCode],
    shown: _Shown,
) -> Iterable[MetadataResponseTopic]:
    for topic in _found(snapshot, context, request, faults, shown):
        if request.include_topic_authorized_operations and topic.error_code == ErrorCode.NONE:
            topic.topic_authorized_operations = shown.operations(topic.name or "")
        yield topic


def _found(
    snapshot: MetadataSnapshot,
    context: RequestContext,
    request: Request,
    faults: Mapping[str, ErrorCode],
    shown: _Shown,
) -> Iterable[MetadataResponseTopic]:
    asked = request.topics
    if asked is None or (context.version == 0 and not asked):
        for known in shown.of_all(snapshot.topics):
            yield _topic(snapshot, context, known)
        return
    # What is asked for twice is told once: a topic is many times as long as its name.
    seen: set[object] = set()
    for question in asked:
        name = question.name
        key = name if question.topic_id == ZERO_ID else (name, question.topic_id)
        if key in seen:
            continue
        seen.add(key)
        if context.version < _BY_ID_FROM and (name is None or question.topic_id != ZERO_ID):
            yield MetadataResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=name or "", topic_id=question.topic_id
            )
        elif name is None or question.topic_id != ZERO_ID:
            yield _by_id(snapshot, context, question, shown)
        else:
            yield _by_name(snapshot, context, name, faults, shown)


def _by_id(
    snapshot: MetadataSnapshot,
    context: RequestContext,
    question: MetadataRequestTopic,
    shown: _Shown,
) -> MetadataResponseTopic:
    name = snapshot.topic_names.get(question.topic_id)
    if name is None:
        return MetadataResponseTopic(
            error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=question.topic_id
        )
    if not shown.is_shown(name):
        return MetadataResponseTopic(error_code=_DENIED, name=None, topic_id=question.topic_id)
    return _topic(snapshot, context, name)


def _by_name(
    snapshot: MetadataSnapshot,
    context: RequestContext,
    name: str,
    faults: Mapping[str, ErrorCode],
    shown: _Shown,
) -> MetadataResponseTopic:
    if not shown.is_shown(name):
        return MetadataResponseTopic(error_code=_DENIED, name=name, is_internal=is_internal(name))
    if name in snapshot.topics:
        return _topic(snapshot, context, name)
    if name_fault(name) is not None:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    else:
        code = faults.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return MetadataResponseTopic(error_code=code, name=name, is_internal=is_internal(name))


def _topic(snapshot: MetadataSnapshot, context: RequestContext, name: str) -> MetadataResponseTopic:
    partitions = snapshot.topics[name]
    describe = _oldest_partition if context.version == 0 else _partition
    return MetadataResponseTopic(
        name=name,
        topic_id=snapshot.topic_ids.get(name, ZERO_ID),
        is_internal=is_internal(name),
        partitions=[
            describe(snapshot, context, index, partitions[index]) for index in sorted(partitions)
        ],
    )


def _partition(
    snapshot: MetadataSnapshot, context: RequestContext, index: int, info: PartitionInfo
) -> MetadataResponsePartition:
    code, leader = ErrorCode.NONE, info.leader
    if leader not in snapshot.brokers:
        code, leader = ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
    elif leader not in snapshot.listening(context.listener):
        late = context.version >= 6
        code = ErrorCode.LISTENER_NOT_FOUND if late else ErrorCode.LEADER_NOT_AVAILABLE
        leader = NO_LEADER
    replicas: list[int] = list(info.replicas)
    dead = [broker for broker in replicas if broker not in snapshot.brokers]
    return MetadataResponsePartition(
        error_code=code,
        partition_index=index,
        leader_id=leader,
        leader_epoch=info.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=list(info.isr),
        offline_replicas=dead + [b for b in info.offline if b not in dead],
    )


def _oldest_partition(
    snapshot: MetadataSnapshot, context: RequestContext, index: int, info: PartitionInfo
) -> MetadataResponsePartition:
    """Version 0 knows no offline replicas: it leaves them out and says that some are missing."""
    partition = _partition(snapshot, context, index, info)
    alive = snapshot.brokers
    partition.replica_nodes = [broker for broker in info.replicas if broker in alive]
    partition.isr_nodes = [broker for broker in info.isr if broker in alive]
    missing = len(partition.replica_nodes) < len(info.replicas)
    missing = missing or len(partition.isr_nodes) < len(info.isr)
    if partition.error_code == ErrorCode.NONE and missing:
        partition.error_code = ErrorCode.REPLICA_NOT_AVAILABLE
    return partition
