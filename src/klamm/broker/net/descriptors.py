"""Limits the connections of the process: all brokers in it share its open files.

A flood of connections must not leave a log without a file, nor a broker without a connection to
another. So clients' connections end well below the process's limit. What is kept back:

    files       what the pool of each broker may have open (`log/disk/files.py`)
    brokers     both ends of the brokers' connections to each other
    guests      connections beyond the clients' share that may still turn out to be a broker's
    the rest    listening sockets, the store, pipes, libraries

The limit is read when somebody asks, for an operator may raise it while brokers run (prlimit).
"""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable
from typing import Final

from klamm.log.disk.files import fair_limit

_UNLIMITED: Final = 1 << 20
_REST: Final = 64
_CLIENTS_MIN: Final = 8


class Descriptors:
    """The connections of clients to all brokers of a process, and how many there may be."""

    def __init__(self, limit: Callable[[], int] | None = None) -> None:
        self._limit = limit or _file_limit
        self._brokers = 0
        self._clients = 0
        # Several clusters may live in one process, each on a thread of its own.
        self._lock = threading.Lock()

    def enter(self) -> None:
        """One more broker listens."""
        with self._lock:
            self._brokers += 1

    def leave(self) -> None:
        """One broker less does."""
        with self._lock:
            self._brokers -= 1

    def take(self) -> bool:
        """Count a client's connection, where there is room for one."""
        with self._lock:
            if self._clients >= self.clients_max:
                return False
            self._clients += 1
            return True

    def give(self) -> None:
        """A client's connection is closed, or was a broker's."""
        with self._lock:
            self._clients -= 1

    @property
    def clients(self) -> int:
        return self._clients

    @property
    def clients_max(self) -> int:
        """The most connections clients may have, to all brokers together."""
        limit, brokers = self._limit(), max(self._brokers, 1)
        between_brokers = min(8 * brokers * brokers, limit // 4)
        # Of guests there are those who arrive, are heard and are being closed.
        kept = brokers * (fair_limit() + 3 * self.guests_max) + between_brokers + _REST
        return max(limit - kept, limit // 8, _CLIENTS_MIN)

    @property
    def guests_max(self) -> int:
        """The most connections beyond that which one broker may look at."""
        share = self._limit() // (32 * max(self._brokers, 1))
        return max(4, min(share, 64))


def _file_limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else soft


OF_PROCESS: Final = Descriptors()
