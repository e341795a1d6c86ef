"""The program of the tour that is killed: copies a topic exactly once.

BOOTSTRAP SOURCE TARGET: starts Spark, says so, and begins when a line comes on standard input.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JOB = "klamm-demo"


def copy_once(spark: SparkSession, bootstrap: str, source: str, target: str) -> None:
    """Copies all records; run again under the same name it adds what is missing."""
    servers = {"kafka.bootstrap.servers": bootstrap}
    rows = spark.read.format("klamm").options(**servers, subscribe=source).load()
    (
        rows.select("key", "value")
        .write.format("klamm")
        .mode("append")
        .options(**servers, topic=target, delivery="exactly-once", jobId=_JOB)
        .save()
    )


def main(bootstrap: str, source: str, target: str) -> None:
    from klamm.pipelines.session.session import start

    spark = start("local[2]", name="klamm demo, a driver")
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if sys.stdin.readline():
        copy_once(spark, bootstrap, source, target)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
