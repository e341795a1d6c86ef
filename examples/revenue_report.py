"""Reads a topic of JSON orders once and writes the revenue of each customer as Parquet.

    python examples/revenue_report.py localhost:9092 orders /data/revenue [spark://host:7077]

An order is {"customer": "ada", "amount": 12.5}. What is not an order is counted, not guessed at.
"""

import sys

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from klamm.spark import start


def orders(records: DataFrame) -> DataFrame:
    """Records as orders; one that is no order has no customer."""
    order = F.from_json(F.col("value").cast("string"), "customer string, amount double")
    return records.select(order.alias("order"), "timestamp").select("order.*", "timestamp")


def revenue(found: DataFrame) -> DataFrame:
    """What each customer has paid, and when last."""
    return (
        found.filter("customer IS NOT NULL")
        .groupBy("customer")
        .agg(
            F.round(F.sum("amount"), 2).alias("revenue"),
            F.count(F.lit(1)).alias("orders"),
            F.max("timestamp").alias("last"),
        )
        .select("customer", "revenue", "orders", "last")
    )


def main(bootstrap: str, topic: str, target: str, master: str = "local[*]") -> None:
    spark = start(master, name="revenue report")
    records = (
        spark.read.format("klamm")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .load()
    )
    found = orders(records)
    revenue(found).write.mode("overwrite").parquet(target)
    print(f"{found.filter('customer IS NULL').count()} records are no orders")


if __name__ == "__main__":
    main(*sys.argv[1:])
