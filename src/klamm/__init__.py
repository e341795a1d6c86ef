"""klamm: a Kafka cluster in Python whose heart is the topic-lifecycle controller.

from klamm import Cluster

with Cluster(brokers=3) as cluster:
    print(cluster.bootstrap_servers)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.version import __version__

if TYPE_CHECKING:
    from klamm.cluster import AsyncCluster, Cluster
    from klamm.secured.wishes import Security

__all__ = ["AsyncCluster", "Cluster", "Security", "__version__"]


def __getattr__(name: str) -> object:
    # A cluster pulls in everything; the command line and pytest import this package at every start.
    if name in ("AsyncCluster", "Cluster", "Security"):
        from klamm import cluster

        return getattr(cluster, name)
    raise AttributeError(f"module 'klamm' has no attribute {name!r}")
