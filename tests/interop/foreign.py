"""A broker that is not klamm's, as far as klamm's brokers can tell.

It registers in the store without saying that it can prove itself, listens, obeys whatever the
controller says, and notes every request. What it answers to a fetch, a test decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from klamm import Cluster
from klamm.model.brokers import Endpoint, Registration
from klamm.model.errors import ErrorCode
from klamm.model.names import BrokerId
from klamm.protocol import codec, fetch
from klamm.protocol.apis import ApiKey
from klamm.protocol.fetch import FetchRequest, FetchResponse
from klamm.protocol.frames import (
    RequestHeader,
    encode_response_frame,
    is_private,
    is_served,
    parse_request_header,
)
from klamm.protocol.messages import alter_partition, api_versions, leader_and_isr, metadata
from klamm.store import layout
from klamm.store.port import Create, Session

_FETCH_WAIT_S_MAX = 0.05  # as a leader lets one wait that has nothing to tell, but not for long
Fetched = Callable[[int, FetchRequest], FetchResponse]


def nothing(version: int, request: FetchRequest) -> FetchResponse:
    """An answer without records."""
    return FetchResponse(session_id=request.session_id or 77)


@dataclass
class ForeignBroker:
    """One such broker: what it was asked, and how it answers a fetch."""

    id: int
    answer_fetch: Fetched = nothing
    asked: list[tuple[ApiKey, int, Any]] = field(default_factory=list)
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0

    def of(self, key: ApiKey) -> list[tuple[int, Any]]:
        """The requests of one API, with their versions."""
        return [(version, request) for k, version, request in self.asked if k is key]

    async def until(self, holds: Callable[[], bool], timeout_s: float = 20) -> None:
        """Wait until what was asked of it satisfies this."""
        async with asyncio.timeout(timeout_s):
            while not holds():
                self.heard.clear()
                await self.heard.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(size)
                header = parse_request_header(frame)
                if is_private(header.api_key) or not is_served(*header[:2]):
                    break  # as Kafka does with what it does not know
                writer.write(await self._answered(header, memoryview(frame)[header.body_offset :]))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answered(self, header: RequestHeader, body: memoryview) -> bytes:
        key, version = ApiKey(header.api_key), header.api_version
        if key is ApiKey.FETCH:
            wanted = fetch.parse_request(version, body)
            self._note(key, version, wanted)
            found = self.answer_fetch(version, wanted)
            if not found.topics:
                await asyncio.sleep(min(wanted.max_wait_ms / 1000, _FETCH_WAIT_S_MAX))
            parts, _ = fetch.encode_response(version, found)
            return encode_response_frame(header, b"".join(map(bytes, parts)))  # type: ignore[arg-type]
        request = codec.decode_request(key, version, body)
        self._note(key, version, request)
        response = self._respond(key, request)
        return encode_response_frame(header, codec.encode_response(key, version, response))

    def _note(self, key: ApiKey, version: int, request: Any) -> None:
        self.asked.append((key, version, request))
        self.heard.set()

    def _respond(self, key: ApiKey, request: Any) -> Any:
        if isinstance(request, leader_and_isr.Request):
            return _obeyed(request)
        if isinstance(request, alter_partition.Request):
            return _altered(self.id, request)
        if key is ApiKey.API_VERSIONS:
            served = (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.FETCH)
            return api_versions.Response(
                api_keys=[api_versions.ApiVersion(k, 0, 3) for k in served]
            )
        if key is ApiKey.METADATA:
            return metadata.Response()
        return codec.message_class(key, "Response")()


def _obeyed(request: leader_and_isr.Request) -> leader_and_isr.Response:
    topics = [
        leader_and_isr.LeaderAndIsrTopicError(
            topic.topic_id,
            [
                leader_and_isr.LeaderAndIsrPartitionError(topic.topic_name, s.partition_index, 0)
                for s in topic.partition_states
            ],
        )
        for topic in request.topic_states
    ]
    flat = [each for topic in topics for each in topic.partition_errors]
    return leader_and_isr.Response(partition_errors=flat, topics=topics)


def _altered(me: int, request: alter_partition.Request) -> alter_partition.Response:
    return alter_partition.Response(
        topics=[
            alter_partition.TopicDataResponse(
                topic.topic_name,
                topic.topic_id,
                [
                    alter_partition.PartitionDataResponse(
                        partition_index=p.partition_index,
                        leader_id=request.broker_id,
                        leader_epoch=p.leader_epoch,
                        isr=p.new_isr or [m.broker_id for m in p.new_isr_with_epochs],
                        partition_epoch=p.partition_epoch + 1,
                    )
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@asynccontextmanager
async def foreign_broker(cluster: Cluster, broker_id: int = 10) -> AsyncIterator[ForeignBroker]:
    """Such a broker in the cluster; when it is there, all brokers have heard of it."""
    mine = ForeignBroker(broker_id)
    server = await asyncio.start_server(mine._serve, "127.0.0.1", 0)
    mine.port = server.sockets[0].getsockname()[1]
    registered = Registration(
        id=BrokerId(broker_id), epoch=-1, endpoints=(Endpoint("127.0.0.1", mine.port),)
    )

    async def register() -> Session:
        session = await cluster._app.store.connect()
        data = layout.encode_broker(registered, timestamp_ms=1)
        path = layout.broker_path(BrokerId(broker_id))
        (result,) = await session.multi([Create(path, data, ephemeral=True)])
        assert result.ok, result
        return session

    session = await asyncio.to_thread(lambda: cluster._run(register()))

    def knows(view: Any) -> bool:
        return all(broker_id in each.live for each in view.brokers.values())

    def knows_not(view: Any) -> bool:
        return all(broker_id not in each.live for each in view.brokers.values())

    try:
        await asyncio.to_thread(cluster.wait_until, knows)
        yield mine
    finally:
        await asyncio.to_thread(lambda: cluster._run(session.close()))
        await asyncio.to_thread(cluster.wait_until, knows_not)
        server.close()


def error(version: int, request: FetchRequest, code: ErrorCode, known: FetchRequest) -> Any:
    """An answer that has this error for every partition of `known`, as Kafka's in each one."""
    topics = [
        fetch.TopicData(
            t.name, t.topic_id, [fetch.PartitionData(p.partition, code) for p in t.partitions]
        )
        for t in known.topics
    ]
    return FetchResponse(session_id=request.session_id or 77, topics=topics)
