"""Writes `docs/explanation/lifecycle.md`: a topic's life, with the ledger of a real run.

python tools/generate_lifecycle.py            runs four brokers and writes the page
python tools/generate_lifecycle.py --print    writes it to standard output instead

The words are here, everything between fences is what the run gave. Numbers that differ from run to
run (times, registration epochs, random ids) are left out or replaced by `N`.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

from klamm import Cluster
from klamm.cli.topics import waiting
from klamm.client.aio.admin import PREFERRED_ELECTION, Admin
from klamm.client.aio.cluster import Client
from klamm.client.aio.producer import Producer
from klamm.model.names import TopicPartition
from klamm.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic
from klamm.protocol.private import PrivateKey
from klamm.view import ClusterView

PAGE = Path(__file__).parent.parent / "docs" / "explanation" / "lifecycle.md"
WORDS = Path(__file__).parent / "lifecycle_words.md"
TOPIC = "orders"
FIRST = TopicPartition(TOPIC, 0)

T = TypeVar("T")
Record = dict[str, Any]


class Story:
    """A cluster, and what its controllers wrote down since the last look."""

    def __init__(self, cluster: Cluster, data: Path) -> None:
        self.cluster = cluster
        self.data = data
        self._seen = (0, 0)

    def ask(self, work: Callable[[Admin], Awaitable[T]]) -> T:
        async def main() -> T:
            async with Client(self.cluster.bootstrap_servers) as client:
                return await work(Admin(client))

        return asyncio.run(main())

    def news(self) -> str:
        """The lines since the last call, under the event that caused them."""
        answers = self.ask(lambda admin: admin.ask_brokers(PrivateKey.STORY, {}))
        found = {
            (record["controller_epoch"], record["sequence"]): record
            for answer in answers.values()
            for record in answer["entries"]
        }
        fresh = [record for key, record in sorted(found.items()) if key > self._seen]
        self._seen = max(found)
        return fenced(lines(r for r in fresh if r["topic"] in ("", TOPIC)))

    def logs(self) -> str:
        """What lies on the brokers' disks of the topic."""
        found = sorted(
            path.relative_to(self.data).as_posix() for path in self.data.glob(f"broker-*/{TOPIC}-*")
        )
        return fenced([re.sub(r"\.[0-9a-f]{32}-", ".N-", path) for path in found] or ["(nothing)"])

    def nodes(self) -> str:
        """What the store has of the topic."""
        paths = [
            p for p in self.cluster.store_paths() if TOPIC in p or p.startswith("/klamm/forgotten/")
        ]
        return fenced(sorted(paths) or ["(nothing)"])

    def explanation(self) -> str:
        found = self.ask(lambda admin: waiting.explain(admin, TOPIC))
        told = waiting.tell(found, max([0, *(w["since_ms"] for w in found["waiting"])]))
        return fenced(re.sub(r"since \d\d:\d\d:\d\d \(.*?\)", "since N", line) for line in told)

    def until(self, holds: Callable[[ClusterView], bool]) -> None:
        self.cluster.wait_until(holds, 60)


def lines(records: Iterable[Record]) -> Iterable[str]:
    """Each event with its moves; alike neighbours share a line."""
    for cause, group in groupby(records, key=lambda r: (r["controller_epoch"], r["cause"])):
        yield cause[1]
        for record in group:
            why = f"  ({record['why']})" if record["why"] else ""
            text = f"  {record['subject']}: {record['before']} -> {record['after']}{why}"
            yield re.sub(r"\(epoch \d+\)", "(epoch N)", text)


def fenced(texts: Iterable[str]) -> str:
    return "\n".join(["```", *texts, "```"])


def live(story: Story) -> dict[str, str]:
    """One life, and what it left at each station."""
    cluster = story.cluster
    while (controller := cluster.wait_for_controller()) != 0:
        cluster.restart_broker(controller)
    story.news()
    parts: dict[str, str] = {}

    story.ask(_create)
    cluster.wait_for_isr(TOPIC)
    parts["CREATION"], parts["NODES_ALIVE"] = story.news(), story.nodes()
    story.ask(_produce)
    parts["LOGS_ALIVE"] = story.logs()

    story.ask(lambda admin: admin.create_partitions(TOPIC, 2, assignments=[(2, 3)]))
    cluster.wait_for_isr(TOPIC)
    parts["GROWTH"] = story.news()

    cluster.kill_broker(1)
    cluster.wait_for_leader(TOPIC, 0, other_than=1)
    parts["DEATH"], parts["LAGGING"] = story.news(), story.explanation()
    cluster.start_broker(1)
    cluster.wait_for_isr(TOPIC, size=2)
    parts["RETURN"] = story.news()
    story.ask(lambda admin: admin.elect_leaders(PREFERRED_ELECTION, [FIRST]))
    parts["ELECTION"] = story.news()

    story.ask(lambda admin: admin.reassign({FIRST: [3, 2]}))
    story.until(_has_moved)
    parts["MOVE"] = story.news()

    cluster.stop_broker(3)
    cluster.wait_for_isr(TOPIC, size=1)
    parts["SHUTDOWN"] = story.news()
    story.ask(lambda admin: admin.delete_topics([TOPIC]))
    while len(story.ask(lambda admin: waiting.explain(admin, TOPIC))["waiting"]) != 2:
        pass  # each question takes a turn of the controller; the answers of brokers come between
    parts["HALT"], parts["WAITING"] = story.news(), story.explanation()
    parts["LOGS_HALTED"], parts["NODES_HALTED"] = story.logs(), story.nodes()
    cluster.start_broker(3)
    story.ask(lambda admin: waiting.until_gone(admin, [TOPIC], 60))
    parts["END"] = story.news()
    parts["LOGS_GONE"], parts["NODES_GONE"] = story.logs(), story.nodes()
    return parts


async def _create(admin: Admin) -> None:
    chosen = [CreatableReplicaAssignment(0, [1, 2])]
    await admin.create_topics([CreatableTopic(TOPIC, -1, -1, chosen)])


async def _produce(admin: Admin) -> None:
    async with Producer(admin.client) as producer:
        await producer.send(TOPIC, b"a coat", key=b"customer-7", partition=0)


def _has_moved(view: ClusterView) -> bool:
    seen = view.partition(TOPIC, 0)
    return seen is not None and tuple(seen.replicas) == (3, 2) and set(seen.isr) == {2, 3}


def page() -> str:
    settings = {
        "auto.leader.rebalance.enable": False,
        "offsets.topic.num.partitions": 1,
        "log.segment.delete.delay.ms": 600_000,
    }
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory)
        with Cluster(4, data=data, settings=settings) as cluster:
            parts = live(Story(cluster, data))
    text = WORDS.read_text()
    for name, part in parts.items():
        assert f"{{{name}}}" in text, f"nobody asks for {name}"
        text = text.replace(f"{{{name}}}", part)
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description="Write docs/explanation/lifecycle.md.")
    parser.add_argument("--print", action="store_true", help="write to standard output instead")
    if parser.parse_args().print:
        sys.stdout.write(page())
    else:
        PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
