"""A pytest plugin that gives kazoo's own tests a store that klamm serves, in place of a ZooKeeper.

python -m pytest -p interop_extra.kazoo_on_served_store --pyargs kazoo.tests
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from kazoo.testing import harness

from unit.store.serving.process import ServedProcess

os.environ["ZOOKEEPER_VERSION"] = "3.8.4"
_TICK_MS = 2000  # as a ZooKeeper's


class _Server:
    """One server, with the words of kazoo's harness."""

    def __init__(self) -> None:
        self._served = ServedProcess(tick_ms=_TICK_MS)
        self.running = False
        self.address = self._served.connect_string
        self.secure_address = self.address
        self.client_port = self._served.port

    def run(self) -> None:
        if not self.running:
            self._served.start()
            self.running = True

    def stop(self) -> None:
        self._served.stop()
        self.running = False

    def destroy(self) -> None:
        self._served.remove()
        self.running = False

    def get_logs(self) -> list[str]:
        return []


class _Cluster:
    """A cluster of one."""

    def __init__(self, **_: object) -> None:
        self._servers = [_Server()]

    def __getitem__(self, at: int) -> _Server:
        return self._servers[at]

    def __iter__(self) -> Iterator[_Server]:
        return iter(self._servers)

    def start(self) -> None:
        for server in self._servers:
            server.run()

    def stop(self) -> None:
        for server in self._servers:
            server.stop()

    def terminate(self) -> None:
        for server in self._servers:
            server.destroy()

    def get_logs(self) -> list[str]:
        return []


harness.ZookeeperCluster = _Cluster
