"""A real ZooKeeper for tests, in a temporary folder."""

from __future__ import annotations

import shutil
import signal
import tempfile
from pathlib import Path
from typing import Final

from klamm import ensemble
from klamm.ensemble import Ensemble, Server, free_port

TICK_MS: Final = 500
SESSION_TIMEOUT_MS: Final = 2 * TICK_MS  # the shortest that a server with this tick grants


def why_not() -> str | None:
    """Why a ZooKeeper cannot be run here, or None."""
    return ensemble.why_not()


class ZooKeeperServer(Server):
    """One server with a folder and a port of its own; it can be killed and come back."""

    def __init__(
        self,
        *,
        heap_mb: int = 256,
        tick_ms: int = TICK_MS,
        config: dict[str, object] | None = None,
        java_options: tuple[str, ...] = (),
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="klamm-zookeeper-"))
        super().__init__(
            self.folder,
            free_port(),
            {"tickTime": tick_ms, "4lw.commands.whitelist": "*", **(config or {})},
            heap_mb=heap_mb,  # big multis need some: the last transactions stay in memory
            java_options=java_options,
        )

    def start(self) -> None:
        self.launch()
        self.wait()

    def pause(self) -> None:
        """Let it hear and say nothing, without breaking its connections."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.folder)


class ZooKeeperEnsemble(Ensemble):
    """Three servers that agree with each other; any one of them can go and come back."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="klamm-zookeeper-"))
        # Sessions last at most twenty ticks: long enough for an election on a busy machine.
        super().__init__(self.folder, nodes=3, tick_ms=1000, heap_mb=128)

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.folder)
