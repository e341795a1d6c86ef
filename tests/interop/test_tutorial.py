"""The tutorial works as it is printed.

Its blocks are done in their order: those of terminal 2 by a shell, those of terminal 1 by Python. A
cluster on free ports stands in for the one on 9092. Below a block may be what it prints; each of
these lines must come, numbers aside. The part about Spark is in `tests/spark/test_tutorial.py`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from klamm import Cluster

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial" / "first-hour.md"
_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]*)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
Block = tuple[str, str, str]


def blocks(heading: str) -> list[Block]:
    """Language, title and text of each block in the sections whose number is in `heading`."""
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    text = "".join(part for part in sections if part[:1] in heading)
    return _BLOCK.findall(text)


def masked(text: str) -> list[str]:
    """Lines without numbers and without the width of columns."""
    return [" ".join(re.sub(r"\d+", "N", line).split()) for line in text.splitlines()]


class Reader:
    """Somebody who types what the tutorial says."""

    def __init__(self, folder: Path, bootstrap: str, names: dict[str, Any]) -> None:
        self.folder = folder
        self.bootstrap = bootstrap
        self.names = names

    def follow(self, said: list[Block]) -> None:
        printed: str | None = None  # by what was done last; None where that was not done here
        for language, title, text in said:
            if language == "text":
                if printed is not None:
                    missing = [line for line in masked(text) if line not in masked(printed)]
                    assert missing == [], printed
                continue
            printed = None
            if title.endswith(".py"):
                path = self.folder / title.removeprefix("~/")
                path.write_text(text.replace("127.0.0.1:9092", self.bootstrap))
            elif language == "python":
                exec(text.replace("port=9092", "port=0"), self.names)
                self.bootstrap = self.names["cluster"].bootstrap_servers
            elif title.startswith("terminal 2"):
                printed = self.typed(text)

    def typed(self, commands: str) -> str:
        kept = [line for line in commands.splitlines() if not line.startswith("pip install")]
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        home = {"HOME": str(self.folder), "PATH": path}
        env = os.environ | {"KLAMM_BOOTSTRAP_SERVER": self.bootstrap, **home}
        done = subprocess.run(
            ["bash", "-e", "-c", "\n".join(kept)],
            cwd=self.folder, env=env, capture_output=True, text=True, check=False, timeout=100,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    names: dict[str, Any] = {}
    with Cluster(brokers=3) as cluster:
        yield Reader(tmp_path, cluster.bootstrap_servers, names)
    if "cluster" in names:
        names["cluster"].stop()


@pytest.mark.interop
def test_a_topics_life_a_dead_broker_and_a_deletion_that_halts(reader: Reader) -> None:
    reader.follow(blocks("2345"))


@pytest.mark.interop
def test_ones_own_test_runs(reader: Reader) -> None:
    said = blocks("6")
    assert [title for _, title, _ in said] == ["terminal 2", "~/shop/test_orders.py", "terminal 2"]
    reader.follow(said)
