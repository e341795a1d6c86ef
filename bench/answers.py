"""Two waits of klamm beside Apache Kafka 3.9, in turns: old segments, and a name that comes back.

    PYTHONPATH=tests python bench/answers.py [--json FILE]

Fetches over segments of one batch each ask for more bytes than a segment has; Metadata asks for a
topic, with auto-creation, straight after its deletion was answered.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from interop.process import up
from interop_extra.kafka_server import kafka_server
from klamm.client.aio.connection import Connection
from klamm.model.errors import ErrorCode
from klamm.model.names import ZERO_ID
from klamm.protocol.apis import ApiKey
from klamm.protocol.batch import Record, encode_batch
from klamm.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.messages import create_topics, delete_topics, metadata
from klamm.protocol.produce import PartitionRecords, ProduceRequest, TopicRecords
from unit.store.zookeeper_server import ZooKeeperServer

SEGMENTS: Final = 100
TURNS: Final = 7
_BATCH: Final = encode_batch([Record(0, 1_700_000_000_000, None, bytes(16_000))])
_SETTINGS: Final = {
    "offsets.topic.replication.factor": "1",
    "log.segment.delete.delay.ms": "1000",
    "auto.create.topics.enable": "true",
}


class Asked:
    """One system and a connection to it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.connection: Connection | None = None

    async def ask(self, key: ApiKey, version: int, request: Any) -> Any:
        assert self.connection is not None
        return await self.connection.request(key, version, request)

    async def open(self) -> None:
        host, _, port = self.address.rpartition(":")
        self.connection = await Connection.open(host, int(port))

    async def create(self, topic: str, configs: dict[str, str]) -> None:
        wanted = create_topics.CreatableTopic(
            topic,
            1,
            1,
            configs=[create_topics.CreatableTopicConfig(*item) for item in configs.items()],
        )
        request = create_topics.Request([wanted], 30_000)
        said = await self.ask(ApiKey.CREATE_TOPICS, 7, request)
        assert said.topics[0].error_code == 0, said

    async def fill(self, topic: str) -> None:
        assert self.connection is not None
        done = 0
        while done < SEGMENTS:
            request = ProduceRequest(topics=[TopicRecords(topic, [PartitionRecords(0, _BATCH)])])
            said = await self.connection.produce(9, request)
            done += said.topics[0].partitions[0].error_code == 0

    async def read_all(self, topic: str) -> float:
        """Seconds to read every segment, each fetch asking for more than one has."""
        assert self.connection is not None
        begun = time.perf_counter()
        for offset in range(SEGMENTS - 1):
            wanted = [FetchPartition(0, fetch_offset=offset)]
            request = FetchRequest(
                max_wait_ms=500,
                min_bytes=50_000,
                max_bytes=50_000_000,
                topics=[FetchTopic(topic, ZERO_ID, wanted)],
            )
            said = await self.connection.fetch(12, request)
            assert len(said.topics[0].partitions[0].records) == len(_BATCH), said
        return time.perf_counter() - begun

    async def comes_back(self, topic: str) -> float:
        """Seconds that Metadata takes for a topic that was deleted just now."""
        await self.create(topic, {})
        gone = delete_topics.DeleteTopicState(topic)
        said = await self.ask(ApiKey.DELETE_TOPICS, 6, delete_topics.Request([gone], [], 30_000))
        assert said.responses[0].error_code == 0, said
        request = metadata.Request([metadata.MetadataRequestTopic(ZERO_ID, topic)])
        begun = time.perf_counter()
        said = await self.ask(ApiKey.METADATA, 12, request)
        took = time.perf_counter() - begun
        assert said.topics[0].error_code in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE), said
        return took


async def measure(klamm: Asked, kafka: Asked) -> dict[str, Any]:
    both = {"klamm": klamm, "kafka": kafka}
    for system in both.values():
        await system.open()
        await system.create("old", {"segment.bytes": "20000", "retention.ms": "-1"})
        await system.fill("old")
        await system.read_all("old")  # classes are loaded, files are in the cache
    reading: dict[str, list[float]] = {name: [] for name in both}
    coming: dict[str, list[float]] = {name: [] for name in both}
    for turn in range(TURNS):
        for name, system in both.items():
            reading[name].append(await system.read_all("old"))
            coming[name].append(await system.comes_back(f"again-{turn}"))
    median = {name: statistics.median(times) for name, times in reading.items()}
    return {
        "fetch_old_segments_s": reading,
        "fetch_ratio": round(median["klamm"] / median["kafka"], 3),
        "created_again_s": coming,
        "created_again_worst_s": {name: max(times) for name, times in coming.items()},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    words = [word for item in _SETTINGS.items() for word in ("-X", "=".join(item))]
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="klamm-answers-")))
        zookeeper = ZooKeeperServer()
        stack.callback(zookeeper.remove)
        zookeeper.start()
        connect = f"{zookeeper.connect_string}/answers"
        line = ("--data", str(work / "klamm"), "--port", "0", "--brokers", "1", *words)
        running = stack.enter_context(up(*line))
        server = kafka_server(work / "kafka", connect, work / "output", _SETTINGS)
        address = stack.enter_context(server)
        told = asyncio.run(measure(Asked(running.bootstrap), Asked(address)))
    text = json.dumps(told, indent=2)
    print(text, flush=True)
    if given.json:
        given.json.write_text(text + "\n")
    good = told["fetch_ratio"] <= 1.2 and told["created_again_worst_s"]["klamm"] < 0.05
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
