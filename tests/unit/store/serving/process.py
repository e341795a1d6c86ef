"""A served store in a process of its own, which can be killed, paused and started again."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM, Signals

from unit.store.serving.served import DIGEST

_SCRIPT = """
import asyncio, signal, sys
from pathlib import Path
from klamm.store.embedded import EmbeddedStore
from klamm.store.serving.server import ServedDoor, StoreServer

async def main():
    store = EmbeddedStore.open(Path(sys.argv[1]), serving=True)
    door = ServedDoor(
        digest=sys.argv[4], port=int(sys.argv[2]), tick_ms=int(sys.argv[3]), anyone_may_write=True
    )
    server = StoreServer(store, door)
    await server.start()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    print("ready", flush=True)
    await stop.wait()
    await server.stop()
    await store.close()

asyncio.run(main())
"""


class ServedProcess:
    """One server with a file and a port of its own."""

    def __init__(self, tick_ms: int = 500) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="klamm-served-"))
        self._tick_ms = tick_ms
        self._process: subprocess.Popen[str] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]

    @property
    def connect_string(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def path(self) -> Path:
        return self._folder / "store.db"

    def start(self) -> None:
        """Return when it takes sessions."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        arguments = [str(self.path), str(self.port), str(self._tick_ms), DIGEST]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SCRIPT, *arguments], stdout=subprocess.PIPE, text=True
        )

    def wait(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def stop(self) -> None:
        self._end(SIGTERM)

    def kill(self) -> None:
        self._end(SIGKILL)

    def signal(self, number: Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def pause(self) -> None:
        """Let it hear and say nothing, without breaking its connections."""
        self.signal(SIGSTOP)

    def resume(self) -> None:
        self.signal(SIGCONT)

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self._folder)

    def _end(self, how: Signals) -> None:
        if self._process is not None:
            assert self._process.stdout is not None
            self._process.send_signal(how)
            self._process.wait()
            self._process.stdout.close()
            self._process = None
