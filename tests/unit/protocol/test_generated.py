"""What is generated from the table of APIs is up to date."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parent.parent.parent.parent / "tools"


@pytest.mark.parametrize("tool", ["generate_messages.py", "generate_protocol_support.py"])
def test_nothing_is_stale(tool: str) -> None:
    done = subprocess.run(
        [sys.executable, TOOLS / tool, "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}run python tools/{tool}"
