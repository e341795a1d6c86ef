"""What somebody reads who asks for ZooKeeper and has no client for it."""

from __future__ import annotations

import subprocess
import sys

from klamm.installing import install_command

# A None in its place makes every import of a module fail as if it were not installed.
ASKING = """
import sys
sys.modules["kazoo"] = None
from klamm.model.errors import UsageError
try:
    import klamm.store.zookeeper
except UsageError as error:
    print(error)
"""


def test_a_missing_client_is_named_with_its_remedy() -> None:
    asked = subprocess.run([sys.executable, "-c", ASKING], capture_output=True, text=True)
    assert asked.stdout == f"ZooKeeper needs kazoo: {install_command('zookeeper')}\n", asked.stderr
