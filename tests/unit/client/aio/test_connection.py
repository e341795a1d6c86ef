"""A connection against a server of a few lines that misbehaves on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from klamm.client.aio.connection import Connection
from klamm.client.errors import ConnectionLost, DeadlineExceeded, VersionMismatch
from klamm.model.errors import ProtocolError
from klamm.protocol import codec, fetch, frames, private, produce
from klamm.protocol.apis import ApiKey, Versions
from klamm.protocol.messages import api_versions, heartbeat

Answer = Callable[[frames.RequestHeader, memoryview], bytes | None]


@asynccontextmanager
async def server(answer: Answer) -> Any:
    """Answers each frame with what `answer` makes of it; None closes the connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while size := await reader.read(4):
                frame = memoryview(await reader.readexactly(int.from_bytes(size, "big")))
                header = frames.parse_request_header(frame)
                reply = answer(header, frame[header.body_offset :])
                if reply is None:
                    break
                writer.write(reply)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


def run(answer: Answer, use: Callable[[Connection], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(10), server(answer) as port:
            connection = await Connection.open("127.0.0.1", port, "test")
            try:
                await use(connection)
            finally:
                await connection.close()
                assert connection.is_closed

    asyncio.run(main())


def echo_generation(header: frames.RequestHeader, body: memoryview) -> bytes:
    request = codec.decode_request(header.api_key, header.api_version, body)
    response = heartbeat.Response(error_code=request.generation_id)
    return frames.encode_response_frame(header, codec.encode_response(12, 4, response))


def beat(generation: int) -> heartbeat.Request:
    return heartbeat.Request(group_id="g", generation_id=generation, member_id="m")


def test_pipelined_requests_get_their_own_answers() -> None:
    async def use(connection: Connection) -> None:
        waiting = [connection.request(ApiKey.HEARTBEAT, 4, beat(n)) for n in range(200)]
        answers = await asyncio.gather(*waiting)
        assert [a.error_code for a in answers] == list(range(200))

    run(echo_generation, use)


def test_a_cancelled_request_does_not_disturb_the_next() -> None:
    async def use(connection: Connection) -> None:
        first = asyncio.ensure_future(connection.request(ApiKey.HEARTBEAT, 4, beat(1)))
        await asyncio.sleep(0)
        first.cancel()
        assert (await connection.request(ApiKey.HEARTBEAT, 4, beat(2))).error_code == 2

    run(echo_generation, use)


@pytest.mark.parametrize("size", [0, 10, 65_531, 65_532, 65_533, 300_000, 5_000_000])
def test_answers_of_any_size(size: int) -> None:
    def fetched(header: frames.RequestHeader, body: memoryview) -> bytes:
        data = fetch.PartitionData(0, records=bytes(size))
        topic = fetch.TopicData("t", fetch.ZERO_ID, [data])
        parts, total = fetch.encode_response(12, fetch.FetchResponse(topics=[topic]))
        return frames.response_head(header, total) + b"".join(bytes(p) for p in parts)  # type: ignore[arg-type]

    async def use(connection: Connection) -> None:
        for _ in range(3):
            response = await connection.fetch(12, fetch.FetchRequest())
            assert len(response.topics[0].partitions[0].records) == size  # type: ignore[arg-type]

    run(fetched, use)


def test_records_of_any_size_are_sent() -> None:
    def count(header: frames.RequestHeader, body: memoryview) -> bytes:
        request = produce.parse_request(header.api_version, body)
        records = request.topics[0].partitions[0].records
        assert records is not None
        result = produce.PartitionResult(0, base_offset=len(records))
        response = produce.ProduceResponse([produce.TopicResult("t", [result])])
        body_out = produce.encode_response(header.api_version, response)
        return frames.encode_response_frame(header, body_out)

    async def use(connection: Connection) -> None:
        for size in (0, 61, 8_000_000):
            records = produce.PartitionRecords(0, memoryview(bytes(size)))
            request = produce.ProduceRequest(topics=[produce.TopicRecords("t", [records])])
            response = await connection.produce(9, request)
            assert response is not None
            assert response.topics[0].partitions[0].base_offset == size

    run(count, use)


def test_whoever_waits_hears_that_the_broker_went_away() -> None:
    async def use(connection: Connection) -> None:
        with pytest.raises(ConnectionLost):
            await connection.request(ApiKey.HEARTBEAT, 4, beat(1))
        with pytest.raises(ConnectionLost):
            await connection.request(ApiKey.HEARTBEAT, 4, beat(1))

    run(lambda header, body: None, use)


def test_a_broker_that_hangs_up_on_a_question_of_klamms_own_may_be_another_kind() -> None:
    async def use(connection: Connection) -> None:
        with pytest.raises(ConnectionLost, match=r"closed the .*, asked what only klamm's brokers"):
            await connection.ask(private.PrivateKey.STORY, {})

    run(lambda header, body: None, use)


def test_a_broker_that_hangs_is_given_up() -> None:
    async def use(connection: Connection) -> None:
        with pytest.raises(DeadlineExceeded, match="did not answer Heartbeat"):
            await connection.request(ApiKey.HEARTBEAT, 4, beat(1), timeout_s=0.05)
        assert connection.is_closed

    run(lambda header, body: b"", use)


@pytest.mark.parametrize(
    "noise", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\0\0\0\4\0\0\0\x63", b"\0\0\0\2\0\0"]
)
def test_an_answer_that_makes_no_sense_closes_the_connection(noise: bytes) -> None:
    async def use(connection: Connection) -> None:
        with pytest.raises(ProtocolError):
            await connection.request(ApiKey.HEARTBEAT, 3, beat(1))
        assert connection.is_closed

    run(lambda header, body: noise, use)


async def test_nobody_there() -> None:
    async with server(lambda header, body: None) as port:
        pass
    with pytest.raises(ConnectionLost, match=f"127.0.0.1:{port}"):
        await Connection.open("127.0.0.1", port)


def test_versions_are_negotiated_downwards() -> None:
    def old_broker(header: frames.RequestHeader, body: memoryview) -> bytes:
        keys = [api_versions.ApiVersion(18, 0, 2), api_versions.ApiVersion(3, 0, 5)]
        refused = header.api_version > 2
        response = api_versions.Response(35 if refused else 0, keys)
        return frames.encode_response_frame(header, codec.encode_response(18, 0, response))

    async def use(connection: Connection) -> None:
        await connection.negotiate()
        assert connection.versions[3] == Versions(0, 5)
        assert connection.version_of(ApiKey.METADATA) == 5
        assert connection.version_of(ApiKey.METADATA, 4) == 4
        assert connection.version_of(ApiKey.LEADER_AND_ISR) == 7
        with pytest.raises(VersionMismatch):
            connection.version_of(ApiKey.FETCH)

    run(old_broker, use)


def test_private_requests() -> None:
    def story(header: frames.RequestHeader, body: memoryview) -> bytes:
        asked = private.decode(body)
        return frames.encode_response_frame(header, private.encode({"asked": asked["topic"]}))

    async def use(connection: Connection) -> None:
        assert await connection.ask(1000, {"topic": "t"}) == {"asked": "t"}

    run(story, use)
