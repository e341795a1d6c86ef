"""Measure `klamm table follow`: a topic into a table of each format, beside an archive of it.

    python bench/tables.py [--size 100 | 1000] [--records N] [--formats parquet,delta] [--to FILE]

Values are JSON objects with four fields and text up to the size. An archive of the same topic is
taken in the same run: it decodes no values, so the ratio tells what columns cost. The first round,
which starts Spark's workers and finds the columns, is measured with the others: a user waits for it
too.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from measure import cluster

from klamm.client.addresses import parse_bootstrap
from klamm.client.blocking.lookup import Lookup
from klamm.client.settings import ConnectionOptions
from klamm.pipelines.archive.archiving import archive
from klamm.pipelines.session.session import start
from klamm.pipelines.tables.following import TableFollower, Wishes
from klamm.pipelines.tables.formats.opening import table_at

_RECORDS = {100: 5_000_000, 1000: 1_000_000}
_PARTITIONS = 2


def _fill(bootstrap: str, topic: str, size: int, records: int) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000}
    )
    pad = "text that every record has " * (size // 27 + 1)
    for number in range(records):
        head = f'{{"id":{number},"ok":true,"x":{number / 8},"name":"'
        value = head + pad[: max(size - len(head) - 2, 0)] + '"}'
        while True:
            try:
                producer.produce(topic, value, partition=number % _PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, choices=sorted(_RECORDS), default=100)
    parser.add_argument("--records", type=int)
    parser.add_argument("--formats", default="parquet,delta,iceberg")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--to", type=Path)
    wanted = parser.parse_args()
    records, lines = wanted.records or _RECORDS[wanted.size], []
    spark: Any = start(wanted.master, name="bench tables")
    with cluster(brokers=1) as running, tempfile.TemporaryDirectory(prefix="klamm-bench-") as text:
        connection = ConnectionOptions(bootstrap=parse_bootstrap(running.bootstrap))
        Lookup(connection).create("bench", _PARTITIONS, configs={"retention.ms": "-1"})
        _fill(running.bootstrap, "bench", wanted.size, records)
        archive(spark, connection, "bench", f"{text}/warm")
        for side in ("archive", *wanted.formats.split(",")):
            began = time.monotonic()
            if side == "archive":
                archive(spark, connection, "bench", f"{text}/archive")
            else:
                follower = TableFollower(
                    spark=spark,
                    connection=connection,
                    topic="bench",
                    table=table_at(Path(text) / side, side),
                    wishes=Wishes(),
                )
                follower.begin()
                found = sum(done.records for done in follower.caught_up())
                assert found == records, (side, found)
            seconds = time.monotonic() - began
            line = {"what": f"table {side}", "size": wanted.size, "records": records}
            lines.append(line | {"seconds": round(seconds, 2), "rate": round(records / seconds)})
            print(f"{side:>8} {wanted.size:>5} B {records / seconds:>12,.0f} records/s", flush=True)
    spark.stop()
    if wanted.to:
        before = json.loads(wanted.to.read_text()) if wanted.to.exists() else {"lines": []}
        kept = [old for old in before["lines"] if old["size"] != wanted.size]
        body = {"machine": platform.platform(), "lines": kept + lines}
        wanted.to.write_text(json.dumps(body, indent=1))


if __name__ == "__main__":
    main()
