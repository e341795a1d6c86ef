"""Addresses, codes and patience."""

from __future__ import annotations

import asyncio

import pytest

from klamm.client.cluster import Client, code_of, error_codes, parse_bootstrap
from klamm.client.errors import DeadlineExceeded
from klamm.model.errors import ErrorCode, UsageError
from klamm.protocol.messages import create_topics, metadata


def test_addresses() -> None:
    assert parse_bootstrap("a:1, b:22") == [("a", 1), ("b", 22)]
    assert parse_bootstrap("[::1]:9092") == [("::1", 9092)]
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


def test_a_cluster_that_is_not_there_is_given_up_in_time() -> None:
    async def main() -> None:
        probe = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
        port = probe.sockets[0].getsockname()[1]
        probe.close()
        await probe.wait_closed()
        async with Client(f"127.0.0.1:{port}", timeout_s=0.3) as client:
            started = asyncio.get_running_loop().time()
            with pytest.raises(DeadlineExceeded, match="no broker can be reached"):
                await client.refresh()
            assert asyncio.get_running_loop().time() - started < 2

    asyncio.run(main())
