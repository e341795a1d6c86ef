"""What the nursery imports may be forked: it has started nothing."""

from __future__ import annotations

import subprocess
import sys


def test_importing_all_that_a_broker_needs_starts_no_thread() -> None:
    code = (
        "import threading, os\n"
        "import klamm.app.supervised, klamm.store.zookeeper\n"
        "print(threading.active_count(), len(os.listdir('/proc/self/task')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "1"]
