"""The page about securing a cluster works as it is printed; a free port stands in for 9092."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from interop.process import up

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "how-to" / "secure-a-cluster.md"
_BLOCK = re.compile(r'^```(\w+) ?(?:title="([^"]*)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)


@pytest.mark.timeout(300)  # each of its commands is a process
def test_the_page_can_be_typed(tmp_path: Path) -> None:
    (start, *blocks) = [
        (title, text) for _, title, text in _BLOCK.findall(PAGE.read_text()) if title
    ]
    assert start == ("terminal 1", "klamm up --secure --user alice --data secured\n")
    printed: list[str] = []
    data = tmp_path / "secured"
    with up("--secure", "--user", "alice", "--data", str(data), "--port", "0"):
        env = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "KLAMM_COMMAND_CONFIG": "secured/clients/admin.properties",
        }
        for title, text in blocks:
            if title.endswith(".py"):
                (tmp_path / title).write_text(text)
                continue
            assert title == "terminal 2"
            done = subprocess.run(
                ["bash", "-e", "-c", text],
                cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=100,
            )  # fmt: skip
            assert done.returncode == 0, text + done.stdout + done.stderr
            printed += done.stdout.splitlines()
    shown = re.findall(r"^```text\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    promised = [line for block in shown[1:] for line in block.splitlines()]
    assert len(promised) == 3
    assert [line for line in promised if line not in printed] == []
