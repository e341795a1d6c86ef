"""Addresses, codes and patience."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from klamm.client.aio.cluster import Client, code_of, error_codes, parse_bootstrap
from klamm.client.aio.producer import Producer
from klamm.client.errors import DeadlineExceeded
from klamm.model.errors import ErrorCode, UsageError
from klamm.protocol import codec, frames
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import api_versions, create_topics, init_producer_id, metadata
from unit.broker.brokers import world


def test_addresses() -> None:
    assert parse_bootstrap("a:1, b:22") == (("a", 1), ("b", 22))
    assert parse_bootstrap("[::1]:9092") == (("::1", 9092),)
    for bad in ("", "host", "host:", ":1", "host:99999", "host:x"):
        with pytest.raises(UsageError):
            parse_bootstrap(bad)


def test_error_codes_are_found_at_any_depth() -> None:
    answer = create_topics.Response(
        topics=[create_topics.CreatableTopicResult(error_code=c) for c in (0, 41)]
    )
    assert list(error_codes(answer)) == [0, 41]
    partition = metadata.MetadataResponsePartition(error_code=5)
    topic = metadata.MetadataResponseTopic(error_code=3, partitions=[partition])
    assert list(error_codes(metadata.Response(topics=[topic]))) == [3, 5]


def test_a_code_from_the_future_is_an_error_all_the_same() -> None:
    assert code_of(9999) is ErrorCode.UNKNOWN_SERVER_ERROR


async def test_a_cluster_that_is_not_there_is_given_up_in_time() -> None:
    probe = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
    port = probe.sockets[0].getsockname()[1]
    probe.close()
    await probe.wait_closed()
    async with Client(f"127.0.0.1:{port}", timeout_s=0.3) as client:
        started = asyncio.get_running_loop().time()
        with pytest.raises(DeadlineExceeded, match="no broker can be reached"):
            await client.refresh()
        assert asyncio.get_running_loop().time() - started < 2


async def test_a_request_that_takes_too_long_is_tried_again_while_there_is_time(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with world(tmp_path, 1) as w, AsyncExitStack() as open_ends:
            port = w.brokers[0].endpoint.port
            connections = 0

            async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                """Hear the first one out without a word, and put the next ones through."""
                nonlocal connections
                connections += 1
                open_ends.callback(writer.close)
                if connections == 1:
                    await reader.read()
                    return
                there, back = await asyncio.open_connection("127.0.0.1", port)
                open_ends.callback(back.close)
                await asyncio.gather(_pump(reader, back), _pump(there, writer))

            server = await asyncio.start_server(relay, "127.0.0.1", 0)
            address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
            async with Client(address, timeout_s=30, request_timeout_s=0.5) as client:
                assert set((await client.refresh()).nodes) == {0}
                assert client.deadline().left_ms <= 500
            assert connections >= 2, "a busy machine may be too slow for the second one as well"
            server.close()

    await main()


async def test_a_broker_that_is_fetching_producer_ids_is_asked_again() -> None:
    """Kafka's says COORDINATOR_LOAD_IN_PROGRESS until it has a block of them."""
    asked = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        while size := await reader.read(4):
            frame = await reader.readexactly(int.from_bytes(size, "big"))
            header = frames.parse_request_header(frame)
            answer: object = api_versions.Response(
                0, [api_versions.ApiVersion(ApiKey.INIT_PRODUCER_ID, 0, 4)]
            )
            if header.api_key == ApiKey.INIT_PRODUCER_ID:
                asked += 1
                code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if asked < 3 else ErrorCode.NONE
                answer = init_producer_id.Response(error_code=code, producer_id=7)
            body = codec.encode_response(header.api_key, header.api_version, answer)
            writer.write(frames.encode_response_frame(header, body))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with Client(address, timeout_s=10) as client, Producer(client):
            assert asked == 3


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        sink.write(data)
    sink.close()
