"""Counts the records of a topic by key, for ever, and writes the counts to another topic.

    klamm topics create counts
    python examples/count_by_key.py localhost:9092 orders counts /data/checkpoint

Kill it whenever you like: started again it goes on where it stopped, and the newest count of each
key is exact. With a fifth argument `once` it ends when it has caught up.
"""

import sys

from klamm.spark import read_stream, start

bootstrap, source, target, checkpoint, *once = sys.argv[1:]
spark = start("local[2]", name="count by key")
orders = read_stream(spark, bootstrap, source, checkpoint=checkpoint, startingOffsets="earliest")
counts = orders.groupBy("key").count().selectExpr("key", "string(count) AS value")
sink = (
    counts.writeStream.format("klamm")
    .outputMode("complete")
    .option("kafka.bootstrap.servers", bootstrap)
    .option("topic", target)
    .option("checkpointLocation", checkpoint)
)
sink = sink.trigger(availableNow=True) if once else sink.trigger(processingTime="1 second")
sink.start().awaitTermination()
