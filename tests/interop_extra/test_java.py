"""The Java clients, of the last ZooKeeper line and of the one after it."""

from __future__ import annotations

import pytest

from interop_extra.kafka import VERSIONS, java
from interop_extra.lives import SETTINGS, lead
from interop_extra.toolbox import HERE, run
from klamm import Cluster


@pytest.mark.klamm(brokers=3, settings=SETTINGS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_topics_life_with_the_java_clients(klamm_cluster: Cluster, version: str) -> None:
    def program(*words: str) -> str:
        return run(java(version, str(HERE / "java" / "Life.java"), *words))

    lead(program, klamm_cluster, "life-in-java", codecs=5)
