"""A ZooKeeper on port 2181, for pages whose reader has one: `python keeper.py DIRECTORY`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from klamm.ensemble import Ensemble

if __name__ == "__main__":
    keeper = Ensemble(Path(sys.argv[1]), nodes=1, port=2181)
    keeper.start()
    sys.stdout.write("ready bootstrap=none, but a ZooKeeper\n")
    sys.stdout.flush()
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.pause()
    keeper.stop()
