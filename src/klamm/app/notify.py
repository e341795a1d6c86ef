"""Tells systemd how a service is doing, over the socket that it names in NOTIFY_SOCKET."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from typing import Final

_USEC: Final = 1_000_000
# While logs are recovered or leaderships handed over, each word from us buys so much more time.
_PATIENCE_S: Final = 60


class Notifier:
    """Says READY, STOPPING, STATUS and WATCHDOG; silent where nobody listens."""

    def __init__(self, environment: MutableMapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        # Taken out: what this process starts is not to speak in its name.
        self._address = environment.pop("NOTIFY_SOCKET", "")
        self._watchdog_s = _watchdog_s(environment)
        self._socket: socket.socket | None = None
        if self._address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)

    def ready(self) -> None:
        self._say("READY=1", "STATUS=serving")

    def status(self, line: str) -> None:
        """Progress of a start or a stop, which may take longer than systemd would wait."""
        self._say(f"STATUS={line}", f"EXTEND_TIMEOUT_USEC={_PATIENCE_S * _USEC}")

    def stopping(self) -> None:
        self._say("STOPPING=1", "STATUS=stopping")

    async def watch(self) -> None:
        """Say that the loop turns, twice as often as the watchdog asks; for ever where it does."""
        while self._watchdog_s:
            self._say("WATCHDOG=1")
            await asyncio.sleep(self._watchdog_s / 2)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _say(self, *lines: str) -> None:
        if self._socket is None:
            return
        path = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        text = "\n".join(line.replace("\n", " ") for line in lines)
        with suppress(OSError):  # a service runs on without the one who watches it
            self._socket.sendto(text.encode(), path)


def _watchdog_s(environment: Mapping[str, str]) -> float:
    """The seconds between two signs of life that systemd wants; 0 if it wants none."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0
    text = environment.get("WATCHDOG_USEC", "")
    return int(text) / _USEC if text.isascii() and text.isdecimal() else 0
