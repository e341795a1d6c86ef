"""The console beside `klamm up`: a process of its own, so that its work is not the brokers'."""

from __future__ import annotations

import asyncio
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Self

from klamm.installing import install_command
from klamm.model.errors import KlammError, UsageError
from klamm.mortal import mortal

_NEEDS: Final = ("starlette", "uvicorn", "jinja2")
_START_S: Final = 30.0
_STOP_S: Final = 5.0
_READY: Final = "ready console="


def check() -> None:
    """Raises with the way to install what the console needs, before anything is started."""
    missing = [name for name in _NEEDS if find_spec(name) is None]
    if missing:
        raise UsageError(f"the console needs {', '.join(missing)}: {install_command('console')}")


class ConsoleChild:
    """A running `klamm console`."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self._process = process
        self.url = url

    @classmethod
    async def start(cls, port: int, servers: str, config: Path | None, data: Path) -> Self:
        """Starts one and waits until it serves; it may operate the processes and start jobs."""
        words = ["-m", "klamm", "console", "--port", str(port), "--bootstrap-server", servers]
        words += ["--data", str(data), "--jobs-dir", str(data / "jobs")]
        if config is not None:
            words += ["--command-config", str(config)]
        process = await asyncio.create_subprocess_exec(
            *mortal([sys.executable, *words], by=signal.SIGTERM),
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None, "it was asked for"
        try:
            async with asyncio.timeout(_START_S):
                line = (await process.stdout.readline()).decode()
        except TimeoutError:
            line = ""
        made = cls(process, line.strip().removeprefix(_READY))
        if not line.startswith(_READY):
            await made.stop()
            raise KlammError(f"the console did not start on port {port}")
        return made

    async def stop(self) -> None:
        """Ends it."""
        if self._process.returncode is None:
            self._process.terminate()
        try:
            async with asyncio.timeout(_STOP_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
