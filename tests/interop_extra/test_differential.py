"""klamm and Apache Kafka are asked the same, at random, and have to answer the same.

    make differential                        # 2,000 requests from a new seed
    make differential SEED=7 COUNT=500       # the same ones again, or fewer

One broker each, with the same settings and the same first topics. What differs on purpose is in
`differential/differences.toml`.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.process import up
from interop_extra.differential import judging
from interop_extra.differential.dice import OLD_TOPICS, TIME_MS, TOPICS, Asked, Dice
from interop_extra.differential.speech import Speaker, common_versions
from interop_extra.differential.trees import Tree, comparable, differences
from interop_extra.kafka_server import kafka_server
from klamm.protocol import batch
from klamm.protocol.apis import APIS, ApiKey
from unit.store.zookeeper_server import ZooKeeperServer

COUNT = int(os.environ.get("KLAMM_DIFFERENTIAL_COUNT") or 2_000)
SETTLED_WITHIN_S = 20.0
# Nothing may change by itself while requests are compared.
SETTINGS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",
    "log.retention.check.interval.ms": "3600000",
    "log.cleaner.backoff.ms": "3600000",
    "auto.leader.rebalance.enable": "false",
}
# After these the two are compared again only when both have settled.
_CHANGES = frozenset({ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS})


@pytest.fixture
def pair(zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[tuple[Speaker, Speaker]]:
    """Kafka and klamm, in the same state."""
    ours = SETTINGS | {"klamm.ledger.topic.enable": "false"}  # a topic that Kafka does not have
    words = [word for item in ours.items() for word in ("-X", "=".join(item))]
    connect = f"{zookeeper.connect_string}/differential"
    with (
        up("--ephemeral", "--port", "0", "--brokers", "1", *words) as running,
        kafka_server(tmp_path / "kafka", connect, tmp_path / "output", SETTINGS) as address,
    ):
        kafka, klamm = Speaker(address), Speaker(running.bootstrap)
        for speaker in (kafka, klamm):
            _furnish(speaker)
        yield kafka, klamm
        kafka.close()
        klamm.close()


def _furnish(speaker: Speaker) -> None:
    """The first topics, records and offsets, and the coordinators' own topics."""
    topics = [
        {"name": name, "num_partitions": 3 if name == "orders" else 1, "replication_factor": 1}
        | (
            {"configs": [{"name": "cleanup.policy", "value": "compact"}]}
            if name.endswith("compacted")
            else {}
        )
        for name in (*TOPICS, *OLD_TOPICS)
    ]
    speaker.ask(ApiKey.CREATE_TOPICS, 7, {"topics": topics, "timeout_ms": 30_000})
    items = [batch.Record(at, TIME_MS + at, b"k%d" % at, b"value") for at in range(10)]
    records = f"hex:{batch.encode_batch(items).hex()}"
    data = [{"name": n, "partition_data": [{"index": 0, "records": records}]} for n in TOPICS]
    asked: Tree = {"acks": -1, "timeout_ms": 30_000, "topic_data": data}
    said = _until(speaker, ApiKey.PRODUCE, 9, asked)
    assert all(p["base_offset"] == 0 for t in said["responses"] for p in t["partition_responses"])
    for kind in (0, 1):
        asked = {"key_type": kind, "coordinator_keys": ["g-committed"]}
        _until(speaker, ApiKey.FIND_COORDINATOR, 4, asked)
    offset = {"partition_index": 0, "committed_offset": 4, "committed_metadata": "here"}
    asked = {
        "group_id": "g-committed",
        "generation_id_or_member_epoch": -1,
        "topics": [{"name": "orders", "partitions": [offset]}],
    }
    _until(speaker, ApiKey.OFFSET_COMMIT, 8, asked)
    first = {"transactional_id": "txn-a", "transaction_timeout_ms": 60_000}
    _until(speaker, ApiKey.INIT_PRODUCER_ID, 4, first)


def _until(speaker: Speaker, key: ApiKey, version: int, asked: Tree) -> Tree:
    """The first answer without an error anywhere in it."""
    deadline = time.monotonic() + 60
    while True:
        said = speaker.ask(key, version, asked)
        if '"error_code": 0' in json.dumps(said) and not _error_in(said):
            return said
        assert time.monotonic() < deadline, said


def _error_in(tree: Tree) -> bool:
    if isinstance(tree, dict):
        return tree.get("error_code", 0) != 0 or any(map(_error_in, tree.values()))
    return isinstance(tree, list) and any(map(_error_in, tree))


def test_both_answer_alike(pair: tuple[Speaker, Speaker]) -> None:
    kafka, klamm = pair
    seed = int(os.environ.get("KLAMM_SEED") or random.SystemRandom().randrange(2**31))
    judge = judging.Judge(judging.documented(judging.TABLE.read_text()))
    asked_of: Counter[str] = Counter()
    for asked in Dice(seed, common_versions(kafka, klamm)).requests(COUNT):
        asked_of[f"{APIS[asked.key].title} v{asked.version}"] += 1
        ones, others = (speaker.ask(*asked) for speaker in pair)
        judge.look(asked, differences(comparable(ones), comparable(others)))
        _trace(asked, ones, others)
        if asked.key in _CHANGES:
            _settle(asked, kafka, klamm)
        if asked.key == ApiKey.END_TXN:
            _finish(asked, kafka, klamm)
    total = asked_of.total()
    summary = f"seed {seed}: {total} requests of {len(asked_of)} APIs and versions"
    _write(seed, asked_of, judge)
    assert not judge.faults, f"{summary}; {len(judge.faults)} differences:\n{judge.report()}"


def _trace(asked: Asked, kafka: Tree, klamm: Tree) -> None:
    """A line for each request with both answers, where somebody asked for a trace."""
    place = os.environ.get("KLAMM_DIFFERENTIAL_TRACE")
    if place:
        with Path(place).open("a") as file:
            file.write(json.dumps({**asked.as_json(), "kafka": kafka, "klamm": klamm}) + "\n")


def _finish(asked: Asked, kafka: Speaker, klamm: Speaker) -> None:
    """Wait until the markers of a transaction are written: Kafka answers before."""
    deadline = time.monotonic() + SETTLED_WITHIN_S
    question = {"transactional_ids": [asked.tree["transactional_id"]]}
    for speaker in (kafka, klamm):
        while True:
            said = speaker.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, question)
            if "Prepare" not in json.dumps(said) or time.monotonic() > deadline:
                break


def _settle(asked: Asked, kafka: Speaker, klamm: Speaker) -> None:
    """Wait until both know the same topics, each with its leaders."""
    deadline = time.monotonic() + SETTLED_WITHIN_S
    while True:
        seen = [speaker.ask(ApiKey.METADATA, 12, {"topics": None}) for speaker in (kafka, klamm)]
        shapes = [
            {t["name"]: (t["error_code"], len(t["partitions"])) for t in each["topics"]}
            for each in seen
        ]
        if shapes[0] == shapes[1] and not any(map(_error_in, seen)):
            return
        if time.monotonic() > deadline:
            strange = shapes[0].items() ^ shapes[1].items()
            pytest.fail(f"the states went apart: {strange}\nafter {json.dumps(asked.as_json())}")


def _write(seed: int, asked_of: Counter[str], judge: judging.Judge) -> None:
    """The numbers of a run, where somebody asked for them."""
    place = os.environ.get("KLAMM_DIFFERENTIAL_JSON")
    if not place:
        return
    told = {
        "seed": seed,
        "requests": asked_of.total(),
        "apis_and_versions": len(asked_of),
        "documented": {reason.why: count for reason, count in judge.used.items()},
        "undocumented": len(judge.faults),
    }
    Path(place).write_text(json.dumps(told, indent=2) + "\n")
