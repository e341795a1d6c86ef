"""franz-go and sarama, from the Go module proxy."""

from __future__ import annotations

from pathlib import Path

import pytest

from interop_extra.lives import SETTINGS, lead
from interop_extra.toolbox import HERE, run, tool, try_to_fetch
from klamm import Cluster

GO = HERE / "go"


@pytest.mark.klamm(brokers=3, settings=SETTINGS)
@pytest.mark.parametrize("library", ["franz", "sarama"])
def test_a_topics_life_with_a_go_library(
    klamm_cluster: Cluster, library: str, tmp_path: Path
) -> None:
    go = tool("go")
    try_to_fetch("the Go modules", [go, "mod", "download"], cwd=GO)
    binary = str(tmp_path / library)
    run([go, "build", "-o", binary, f"./{library}"], cwd=GO)

    def program(*words: str) -> str:
        return run([binary, *words])

    lead(program, klamm_cluster, f"life-in-{library}", codecs=5)
