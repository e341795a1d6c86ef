"""A command imports what it needs: starting it must not take longer than its work."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Whole libraries, and rooms that a command of this kind has nothing to do with.
NEVER = ("typer", "click", "rich", "pydantic", "numpy", "pandas", "pyarrow", "pyspark", "kazoo")
ROOMS = ("klamm.app", "klamm.broker", "klamm.controller", "klamm.log", "klamm.store")
# The messages that every conversation has; a command adds its own when it sends them.
MESSAGES = {"api_versions", "metadata"}


def imported(args: list[str]) -> set[str]:
    code = f"import sys\nfrom klamm.cli.__main__ import main\nmain({args!r})\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def test_version_needs_neither_a_client_nor_a_loop() -> None:
    found = imported(["version"])
    assert found.isdisjoint({*NEVER, *ROOMS, "klamm.client", "asyncio", "ssl"})


@pytest.mark.parametrize("command", ["status", "topics", "brokers", "groups"])
def test_a_command_that_asks_a_cluster_imports_a_client_and_no_more(command: str) -> None:
    found = imported([command, "--help"])
    assert found.isdisjoint({*NEVER, *ROOMS, "cramjam"})


def test_status_imports_the_messages_of_a_connection_only() -> None:
    found = imported(["status", "--help"])
    prefix = "klamm.protocol.messages."
    assert {name.removeprefix(prefix) for name in found if name.startswith(prefix)} == MESSAGES
