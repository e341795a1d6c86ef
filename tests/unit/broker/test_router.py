"""From frames to handlers, on a real broker: what is served, refused, answered as a failure."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from klamm.broker import api as registry
from klamm.broker.parts import Parts
from klamm.client.aio.connection import Connection
from klamm.client.errors import ConnectionLost
from klamm.model.errors import ErrorCode, StoreUnavailable
from klamm.protocol import codec
from klamm.protocol.apis import APIS, ApiKey, advertised
from klamm.protocol.messages import (
    api_versions,
    delete_records,
    describe_cluster,
    describe_log_dirs,
    list_offsets,
    metadata,
)
from klamm.protocol.private import PrivateKey
from unit.broker.brokers import world


async def listed(connection: Connection, version: int, software: str) -> dict[int, tuple[int, int]]:
    request = api_versions.Request(software, "1.0")
    response = await connection.request(ApiKey.API_VERSIONS, version, request)
    assert response.error_code == 0
    assert response.supported_features == []
    return {a.api_key: (a.min_version, a.max_version) for a in response.api_keys}


async def test_what_has_a_file_is_listed_and_nothing_else(tmp_path: Path) -> None:
    async with world(tmp_path, count=1) as w:
        connection = await w.connect(0)
        expected = {int(key): tuple(range_) for key, range_ in advertised(registry.SERVED)}
        for version in range(5):
            assert await listed(connection, version, "stranger") == expected
        assert expected[ApiKey.PRODUCE] == (0, 11)
        assert not {4, 5, 6, 7} & expected.keys(), "those are between brokers"
        more = await listed(connection, 3, "klamm")
        assert more.keys() - expected.keys() == {PrivateKey.STORY} | set(registry.PRIVATE)
        await connection.close()


async def test_a_version_from_the_future_is_told_which_there_are(tmp_path: Path) -> None:
    async with world(tmp_path, count=1) as w:
        endpoint = w.brokers[0].endpoint
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        # The body is not to be read: here it is noise.
        writer.write(struct.pack(">ihhih", 4 + 4 + 2 + 9, 18, 99, 7, -1) + b"\xff" * 9)
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        frame = await reader.readexactly(size)
        assert struct.unpack_from(">i", frame) == (7,)
        response = codec.decode_response(ApiKey.API_VERSIONS, 0, frame[4:])
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [(a.api_key, a.max_version) for a in response.api_keys] == [(18, 4)]
        # The same connection goes on with a version that both speak.
        body = codec.encode_request(18, 0, api_versions.Request())
        writer.write(struct.pack(">ihhih", 10 + len(body), 18, 0, 8, -1) + body)
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        assert struct.unpack_from(">ih", await reader.readexactly(size)) == (8, 0)
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("name", ["", "-x", "x y", "x-"])
async def test_a_client_software_must_have_a_name(tmp_path: Path, name: str) -> None:
    async with world(tmp_path, count=1) as w:
        connection = await w.connect(0)
        request = api_versions.Request(name, "1")
        response = await connection.request(ApiKey.API_VERSIONS, 3, request)
        assert response.error_code == ErrorCode.INVALID_REQUEST
        await connection.close()


@pytest.mark.parametrize(
    ("key", "version"), [(0, 2), (1, 3), (3, 13), (68, 0), (999, 0), (1099, 0), (-1, 0)]
)
async def test_what_nobody_serves_closes_the_connection(
    tmp_path: Path, key: int, version: int
) -> None:
    async with world(tmp_path, count=1) as w:
        endpoint = w.brokers[0].endpoint
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        writer.write(struct.pack(">ihhih", 10, key, version, 1, -1))
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        other = await w.connect(0)
        assert await listed(other, 0, "")
        await other.close()


async def test_a_body_that_ends_early_closes_the_connection(tmp_path: Path) -> None:
    async with world(tmp_path, count=1) as w:
        for key in registry.SERVED:
            if key == ApiKey.API_VERSIONS:
                continue
            connection = await w.connect_as_broker(0)
            version = APIS[key].served.high
            with pytest.raises(ConnectionLost):
                await connection.exchange(key, version, (b"\x7f",), timeout_s=5)
            await connection.close()


@contextlib.contextmanager
def without(parts: Parts, *names: str) -> Iterator[None]:
    """Parts that are missing for a while: what asks for them fails."""
    taken = {name: getattr(parts, name) for name in names}
    for name in names:
        object.__setattr__(parts, name, None)
    try:
        yield
    finally:
        for name, part in taken.items():
            object.__setattr__(parts, name, part)


async def test_our_own_fault_is_answered_in_the_way_of_the_api(tmp_path: Path) -> None:
    async with world(tmp_path, count=1) as w:
        await w.create("t", (0,))
        connection = await w.connect(0)
        with without(w.brokers[0].parts, "logs", "replicas"):
            request: Any = describe_log_dirs.Request(topics=None)
            answer = await connection.request(ApiKey.DESCRIBE_LOG_DIRS, 4, request)
            assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
            wanted = [list_offsets.ListOffsetsPartition(0, -1, -1)]
            request = list_offsets.Request(-1, 0, [list_offsets.ListOffsetsTopic("t", wanted)])
            answer = await connection.request(ApiKey.LIST_OFFSETS, 9, request)
            assert answer.topics[0].partitions[0].error_code == -1
            doomed = [delete_records.DeleteRecordsPartition(0, 0)]
            request = delete_records.Request([delete_records.DeleteRecordsTopic("t", doomed)])
            answer = await connection.request(ApiKey.DELETE_RECORDS, 2, request)
            assert answer.topics[0].partitions[0].error_code == -1
        # And the connection is still good.
        answer = await connection.request(ApiKey.LIST_OFFSETS, 9, list_offsets.Request())
        assert answer.topics == []
        await connection.close()


async def test_a_store_that_is_away_is_no_fault_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def away(*_: object) -> Any:
        raise StoreUnavailable("nobody answers")

    known = registry.handler

    def handler(key: int) -> registry.Handler | None:
        found = known(key)
        mine = key in (ApiKey.DESCRIBE_LOG_DIRS, PrivateKey.STATUS)
        return found._replace(handle=away) if mine and found is not None else found

    monkeypatch.setattr(registry, "handler", handler)
    async with world(tmp_path, count=1) as w:
        connection = await w.connect(0)
        request: Any = describe_log_dirs.Request(topics=None)
        answer = await connection.request(ApiKey.DESCRIBE_LOG_DIRS, 4, request)
        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        told = await connection.ask(PrivateKey.STATUS, {})
        assert told["error_code"] == ErrorCode.UNKNOWN_SERVER_ERROR
        assert "try again" in told["error_message"]
        await connection.close()
    lines = [r for r in caplog.records if r.name == "klamm.broker.router"]
    assert [(r.levelno, r.exc_info) for r in lines] == [(logging.WARNING, None)] * 2


async def test_a_fault_that_has_no_answer_closes_that_connection_only(tmp_path: Path) -> None:
    async with world(tmp_path, count=1) as w:
        broken, fine = await w.connect(0), await w.connect(0)
        with without(w.brokers[0].parts, "metadata"), pytest.raises(ConnectionLost):
            await broken.request(ApiKey.METADATA, 12, metadata.Request(topics=None))
        answer = await fine.request(ApiKey.METADATA, 12, metadata.Request(topics=None))
        assert len(answer.brokers) == 1
        for connection in (broken, fine):
            await connection.close()


async def test_metadata_of_all_kinds(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path, count=2, auto_create_topics_enable="false") as w:
            await w.create("t", (0, 1), (1, 0))
            connection = await w.connect(0)
            topic_id = w.brokers[0].parts.metadata.snapshot.topic_ids["t"]

            async def ask(version: int, *topics: metadata.MetadataRequestTopic) -> Any:
                request = metadata.Request(topics=list(topics))
                return await connection.request(ApiKey.METADATA, version, request)

            Named = metadata.MetadataRequestTopic
            for version in range(13):
                everything = None if version else []
                request = metadata.Request(topics=everything)
                answer = await connection.request(ApiKey.METADATA, version, request)
                assert [topic.name for topic in answer.topics] == ["t"], version
                assert {broker.node_id for broker in answer.brokers} == {0, 1}
                assert [p.leader_id for p in answer.topics[0].partitions] == [0, 1]
                if version >= 1:
                    assert (await ask(version)).topics == [], "none are asked for"
                again = await connection.request(ApiKey.METADATA, version, request)
                assert again == answer, "from the snapshot's kept bytes"
            by_id = await ask(12, Named(topic_id, None))
            assert by_id.topics[0].name == "t"
            for version, topic, code in (
                (12, Named(name="nope"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                (12, Named(name="not a name"), ErrorCode.INVALID_TOPIC_EXCEPTION),
                (
                    12,
                    Named(
                        w.brokers[0].parts.metadata.snapshot.topic_ids["t"].__class__(int=5), None
                    ),
                    100,
                ),
                (11, Named(topic_id, "t"), ErrorCode.INVALID_REQUEST),
            ):
                assert (await ask(version, topic)).topics[0].error_code == code
            await w.kill(1)
            await w.brokers[0].parts.metadata.wait_for(
                lambda s: set(s.brokers) == {0} and s.topics["t"][1].leader == 0
            )
            partition = (await ask(12, Named(name="t"))).topics[0].partitions[1]
            assert partition.leader_id == 0
            assert (partition.replica_nodes, partition.offline_replicas) == ([1, 0], [1])
            oldest = (await ask(0, Named(name="t"))).topics[0].partitions[0]
            assert oldest.error_code == ErrorCode.REPLICA_NOT_AVAILABLE
            await connection.close()

    await run()


async def test_a_cluster_describes_its_brokers_only(tmp_path: Path) -> None:
    async with world(tmp_path, count=1) as w:
        connection = await w.connect(0)
        for kind, code in ((1, 0), (2, 114), (3, 115)):
            request = describe_cluster.Request(True, kind)
            answer = await connection.request(ApiKey.DESCRIBE_CLUSTER, 1, request)
            assert answer.error_code == code
            assert len(answer.brokers) == (1 if code == 0 else 0)
        await connection.close()
