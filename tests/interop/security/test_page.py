"""The pages about security work as they are printed; a free port stands in for 9092."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from interop.process import up

pytestmark = pytest.mark.timeout(400)  # each command is a process

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "how-to" / "secure-a-cluster.md"
EXPLAINED = ROOT / "docs" / "explanation" / "security.md"
_BLOCK = re.compile(r'^```(\w+) ?(?:title="([^"]*)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)


def typed(page: Path, tmp_path: Path, *users: str) -> list[str]:
    """The lines that the commands of a page print."""
    (start, *blocks) = [
        (title, text) for _, title, text in _BLOCK.findall(page.read_text()) if title
    ]
    words = [word for user in users for word in ("--user", user)]
    title, text = start
    assert title == "terminal 1"
    *installing, command = text.splitlines()
    assert installing in ([], ["pip install '.[secure]'  # in the clone"])  # a test of its own
    assert command == f"klamm up --secure {' '.join(words)} --data secured"
    printed: list[str] = []
    data = tmp_path / "secured"
    with up("--secure", *words, "--data", str(data), "--port", "0"):
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
    return printed


@pytest.mark.timeout(300)  # each of its commands is a process
def test_the_page_can_be_typed(tmp_path: Path) -> None:
    printed = typed(PAGE, tmp_path, "alice")
    shown = re.findall(r"^```text\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    promised = [line for block in shown[1:] for line in block.splitlines()]
    assert len(promised) == 3
    assert [line for line in promised if line not in printed] == []


@pytest.mark.timeout(300)
def test_each_feature_has_a_command_that_works(tmp_path: Path) -> None:
    printed = "\n".join(typed(EXPLAINED, tmp_path, "alice", "bob"))
    for said in (
        "orders",
        "User:alice may write topic:orders",
        "User:alice may not read topic:orders",
        "producer_byte_rate=1048576",
        "User:admin",
    ):
        assert said in printed, printed
