"""A user's program: copies one topic to another exactly once, and starts again after a failure.

BOOTSTRAP SOURCE TARGET CHECKPOINT MASTER
"""

from __future__ import annotations

import sys
import time

from pyspark.errors import PySparkException

from klamm.spark import read_stream, start

BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def main(bootstrap: str, source: str, target: str, checkpoint: str, master: str) -> None:
    settings = {"spark.executor.extraJavaOptions": BRIEF, "spark.executor.memory": "512m"}
    spark = start(master, settings=settings)
    while True:
        frame = read_stream(
            spark,
            bootstrap,
            source,
            checkpoint=checkpoint,
            startingOffsets="earliest",
            maxOffsetsPerTrigger="2000",
            minPartitions="4",
        )
        query = (
            frame.select("key", "value")
            .writeStream.format("klamm")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", target)
            .option("delivery", "exactly-once")
            .option("kafka.batch.size", "2k")
            .option("kafka.request.timeout.ms", "8000")
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime="0 seconds")
            .start()
        )
        try:
            query.awaitTermination()
        except PySparkException as fault:
            sys.stderr.write(f"again, after: {fault}\n")
            time.sleep(0.5)


if __name__ == "__main__":
    main(*sys.argv[1:])
