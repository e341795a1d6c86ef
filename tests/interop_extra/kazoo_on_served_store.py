"""A pytest plugin that gives kazoo's own tests a store that klamm serves, in place of a ZooKeeper.

python -m pytest -p interop_extra.kazoo_on_served_store --pyargs kazoo.tests
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from types import ModuleType

from unit.store.serving.process import ServedProcess


def _objects_count(type_name: str) -> int:
    return sum(type(each).__name__ == type_name for each in gc.get_objects())


# Packages that kazoo's tests want and klamm does not: two make certificates for the ZooKeepers that
# kazoo's harness starts, which are none here, and of one a single function is used.
for _name in ("OpenSSL", "jks", "objgraph"):
    sys.modules.setdefault(_name, ModuleType(_name))
vars(sys.modules["objgraph"]).setdefault("count", _objects_count)

from kazoo.testing import harness  # noqa: E402

os.environ["ZOOKEEPER_VERSION"] = "3.8.4"
_TICK_MS = 2000  # as a ZooKeeper's


class _Server:
    """One server, with the words of kazoo's harness; each class of tests gets an empty one."""

    def __init__(self) -> None:
        self._served = ServedProcess(tick_ms=_TICK_MS)
        self._is_removed = False
        self.running = False

    @property
    def address(self) -> str:
        return self._served.connect_string

    @property
    def secure_address(self) -> str:
        return self.address

    @property
    def client_port(self) -> int:
        return self._served.port

    def run(self) -> None:
        if self.running:
            return
        if self._is_removed:
            self._served, self._is_removed = ServedProcess(tick_ms=_TICK_MS), False
        self._served.start()
        self.running = True

    def stop(self) -> None:
        self._served.stop()
        self.running = False

    def destroy(self) -> None:
        if not self._is_removed:
            self._served.remove()
            self._is_removed, self.running = True, False

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
