"""The way to the controller while controllers come and go."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from klamm.broker.controller_channel import ControllerChannel, ControllerUnreachable
from klamm.broker.metadata_cache import MetadataCache
from klamm.broker.net.peers import Peers
from klamm.model.brokers import Endpoint
from klamm.model.names import BrokerId
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages.update_metadata import Request


class FakeLink:
    """A connection to a broker that answers when it is told to."""

    def __init__(self, broker: int) -> None:
        self.broker = broker
        self.asked = asyncio.Event()
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.is_closed = False

    async def request(self, key: ApiKey, version: int, message: object) -> str:
        self.asked.set()
        return await self.answer

    async def close(self) -> None:
        self.is_closed = True


class FakePeers:
    """Brokers 0 and 1, each with one connection."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self.links = [FakeLink(0), FakeLink(1)]

    def endpoint_as_controller(self, to: BrokerId) -> Endpoint | None:
        return Endpoint("h", 9092 + to) if to >= 0 else None

    async def connect(self, to: BrokerId, endpoint: Endpoint, name: str) -> FakeLink:
        return self.links[to]


@pytest.fixture
async def metadata() -> MetadataCache:
    return MetadataCache()


def controlled_by(metadata: MetadataCache, broker: int) -> None:
    metadata.apply(Request(controller_id=broker))


def way(metadata: MetadataCache, peers: FakePeers) -> ControllerChannel:
    return ControllerChannel(metadata, cast(Peers, peers), lambda: "broker-2")


async def ask(channel: ControllerChannel) -> Any:
    return await channel.request(ApiKey.ALTER_PARTITION, 3, "a change")


async def test_a_silent_controller_is_left_when_another_one_is_known(
    metadata: MetadataCache,
) -> None:
    peers = FakePeers(metadata)
    channel = way(metadata, peers)
    controlled_by(metadata, 0)
    asking = asyncio.ensure_future(ask(channel))
    await peers.links[0].asked.wait()
    controlled_by(metadata, 0)
    await asyncio.sleep(0)
    assert not asking.done(), "the same one again is no news"
    controlled_by(metadata, 1)
    with pytest.raises(ControllerUnreachable, match="another controller"):
        await asyncio.wait_for(asking, 5)
    assert peers.links[0].is_closed, "an answer that comes late is nobody's"
    peers.links[1].answer.set_result("done")
    assert await ask(channel) == "done"


async def test_an_answer_that_is_there_counts(metadata: MetadataCache) -> None:
    peers = FakePeers(metadata)
    channel = way(metadata, peers)
    controlled_by(metadata, 0)
    asking = asyncio.ensure_future(ask(channel))
    await peers.links[0].asked.wait()
    peers.links[0].answer.set_result("done")
    controlled_by(metadata, 1)
    assert await asking == "done"
