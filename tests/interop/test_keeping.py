"""Topics that are kept until a time: the controller deletes them then, and nothing else."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from klamm import Cluster
from klamm.cli.__main__ import main
from klamm.client.addresses import parse_bootstrap
from klamm.client.blocking.lookup import Lookup
from klamm.client.settings import ConnectionOptions

UNTIL = "klamm.kept.until.ms"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(1, settings={"klamm.kept.check.interval.ms": "100"}) as running:
        yield running


def test_a_topic_goes_when_its_time_is_over(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    servers = cluster.bootstrap_servers
    lookup = Lookup(ConnectionOptions(bootstrap=parse_bootstrap(servers)))
    now_ms = int(time.time() * 1000)
    later = now_ms + 3_600_000
    for name, configs in {
        "written": {UNTIL: "1"},  # clients may write to it: it is no leftover
        "frozen": {"klamm.frozen": "true"},
        "kept": {"klamm.frozen": "true", UNTIL: str(later)},
        "over": {"klamm.frozen": "true", UNTIL: str(now_ms + 500)},
    }.items():
        lookup.create(name, 1, configs=configs)
    assert main(["status", "-o", "json", "-b", servers]) == 0
    told = json.loads(capsys.readouterr().out)["kept"]["items"]
    assert {"topic": "kept", "until_ms": later} in told
    cluster.wait_for_no_topic("over")
    lookup.alter("kept", {UNTIL: str(now_ms)})
    cluster.wait_for_no_topic("kept")
    assert set(lookup.view().topics) >= {"written", "frozen"}
    assert main(["story", "kept", "-b", servers]) == 0
    assert "klamm.kept.until.ms" in capsys.readouterr().out
    lookup.alter("frozen", {UNTIL: str(later)})
    assert main(["status", "-b", servers]) == 0
    assert "topic frozen is kept until" in capsys.readouterr().out
    assert main(["topics", "explain", "frozen", "-b", servers]) == 0
    assert "it is kept until" in capsys.readouterr().out
