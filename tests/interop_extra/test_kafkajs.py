"""kafkajs, from npm: no codecs but gzip, and the oldest versions of the protocol."""

from __future__ import annotations

import pytest

from interop_extra.lives import SETTINGS, lead
from interop_extra.toolbox import HERE, cached, run, tool
from klamm import Cluster

JS = HERE / "js"
VERSION = "2.2.4"


@pytest.mark.klamm(brokers=3, settings=SETTINGS)
def test_a_topics_life_with_kafkajs(klamm_cluster: Cluster) -> None:
    node = tool("node")
    packages = cached(
        f"kafkajs-{VERSION}",
        lambda into: [tool("npm"), "install", "--prefix", str(into), f"kafkajs@{VERSION}"],
    )

    def program(*words: str) -> str:
        modules = {
            "NODE_PATH": str(packages / "node_modules"),
            "KAFKAJS_NO_PARTITIONER_WARNING": "1",
        }
        return run([node, str(JS / "life.js"), *words], env=modules)

    lead(program, klamm_cluster, "life-in-javascript", codecs=2)
