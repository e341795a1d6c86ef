"""Offers PySpark programs the klamm source: register it, read a stream safely, watch its lag.

from klamm.spark import read_stream
orders = read_stream(spark, "localhost:9092", "orders", checkpoint="/data/checkpoint")
"""

from __future__ import annotations

from klamm.pipelines.session.session import read_stream, register, start
from klamm.pipelines.source.listener import KlammProgressListener

__all__ = ["KlammProgressListener", "read_stream", "register", "start"]
