"""The page about the state machines is what the tables say."""

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parents[4] / "tools" / "generate_state_machines.py"


def test_the_page_is_not_stale() -> None:
    done = subprocess.run(
        [sys.executable, TOOL, "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
