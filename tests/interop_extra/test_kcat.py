"""kcat, where the machine has it: the tool most people try first."""

from __future__ import annotations

import json

import pytest

from interop_extra.lives import SETTINGS
from interop_extra.toolbox import run, tool
from klamm import Cluster


@pytest.mark.klamm(brokers=3, settings=SETTINGS)
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kcat_lists_writes_and_reads(klamm_cluster: Cluster, codec: str) -> None:
    # Its library gives the same name for every program, so the program gives its own.
    kcat = [tool("kcat"), "-b", klamm_cluster.bootstrap_servers, "-X", "client.id=kcat"]
    klamm_cluster.create_topic("cats", 3, 3)
    listed = json.loads(run([*kcat, "-L", "-J"]))
    (topic,) = [topic for topic in listed["topics"] if topic["topic"] == "cats"]
    assert len(topic["partitions"]) == 3

    written = [f"k{at}:value {at}" for at in range(100)]
    settings = ("-X", "acks=all", "-X", "enable.idempotence=true")
    run([*kcat, "-P", "-t", "cats", "-K:", "-z", codec, *settings], stdin="\n".join(written) + "\n")
    read = run([*kcat, "-C", "-t", "cats", "-K:", "-e", "-q", "-o", "beginning"])
    assert sorted(read.splitlines()) == sorted(written)

    # As a group: it starts at the end unless told otherwise, and does not leave by itself.
    begin = ("-X", "auto.offset.reset=earliest", "-c", "100", "-q")
    grouped = run([*kcat, *begin, "-G", "cats-group", "cats"])
    assert sorted(grouped.splitlines()) == sorted(line.split(":")[1] for line in written)
