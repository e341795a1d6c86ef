"""One partition among twenty thousand: what it costs the store and the brokers' metadata.

    python bench/one_partition.py
    PYTHONPATH=../other-tree/src python bench/one_partition.py   # that tree

Prints processor time in microseconds, and bytes, for each partition; RF 1, three brokers.
"""

from __future__ import annotations

import gc
import json
import tempfile
import time
import tracemalloc
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from klamm.broker.metadata_cache import MetadataCache
from klamm.model.leadership import Leadership
from klamm.model.names import BrokerId, TopicPartition
from klamm.protocol.messages import update_metadata
from klamm.store import layout
from klamm.store.database import Database, rows_of
from klamm.store.port import Create, Op
from klamm.store.tree import Draft, Tree

TOPICS, WIDTH = 20, 1_000
COUNT = TOPICS * WIDTH
BROKERS = 3
found: dict[str, float] = {}


@contextmanager
def _timed(name: str) -> Iterator[None]:
    gc.collect()
    gc.disable()
    began = time.process_time()
    yield
    found[name] = 1e6 * (time.process_time() - began) / COUNT
    gc.enable()


def _write(database: Database, tree: Tree, ops: list[Op]) -> None:
    draft = Draft(tree)
    draft.multi(ops, owner=0, now_ms=1)
    database.commit(rows_of(draft, tree))
    tree.publish(draft)


def _topic(name: str) -> list[Op]:
    ops: list[Op] = [Create(layout.topic_path(name), b"x"), Create(layout.partitions_path(name))]
    for index in range(WIDTH):
        place, leader = TopicPartition(name, index), BrokerId(index % BROKERS)
        led = Leadership(leader=leader, leader_epoch=0, isr=(leader,), controller_epoch=1)
        ops.append(Create(layout.partition_path(place)))
        ops.append(Create(layout.state_path(place), layout.encode_state(led)))
    return ops


def _store(path: Path) -> None:
    database = Database.open(path, fsync=False)
    tree = database.load()
    _write(database, tree, [Create("/brokers"), Create(layout.TOPICS)])
    with _timed("store_make_us"):
        for number in range(TOPICS):
            _write(database, tree, _topic(f"many-{number}"))
    with _timed("store_load_us"):
        tree = database.load()
    nodes = [entry for path, entry in tree.entries.items() if path.endswith("/state")]
    with _timed("state_read_us"):
        for entry in nodes:
            layout.decode_state(entry.data, entry.stat.version)
    del tree, nodes
    gc.collect()
    tracemalloc.start()
    again = database.load()
    gc.collect()
    found["store_bytes"] = tracemalloc.get_traced_memory()[0] / COUNT
    assert len(again.entries) > COUNT, "all of it is there"
    tracemalloc.stop()
    database.close()


def _partition(index: int) -> update_metadata.UpdateMetadataPartitionState:
    leader = [index % BROKERS]
    return update_metadata.UpdateMetadataPartitionState(
        partition_index=index, leader=leader[0], leader_epoch=0, isr=leader, replicas=leader
    )


def _metadata() -> None:
    told = update_metadata.Request(
        topic_states=[
            update_metadata.UpdateMetadataTopicState(
                f"many-{number}", uuid.uuid4(), [_partition(index) for index in range(WIDTH)]
            )
            for number in range(TOPICS)
        ]
    )
    caches = [MetadataCache() for _ in range(BROKERS)]
    with _timed("metadata_of_all_brokers_us"):
        for cache in caches:
            cache.apply(told)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="klamm-one-") as data:
        _store(Path(data) / "store.db")
    _metadata()
    print(json.dumps({name: float(f"{value:.3g}") for name, value in found.items()}))


if __name__ == "__main__":
    main()
