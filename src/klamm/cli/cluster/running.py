"""Commands that run until they are told to stop: their options, signals and progress."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated

from klamm.cli.logs import LogFormat
from klamm.cli.parsing.declared import Option

DataOption = Annotated[Path | None, Option(help="the data directory [$XDG_STATE_HOME/klamm]")]
SettingOption = Annotated[
    list[str] | None,
    Option("-X", metavar="NAME=VALUE", help="a broker setting of Kafka; repeatable"),
]
MetricsPortOption = Annotated[
    int | None,
    Option(help="serve Prometheus metrics on this port; 0 = a free port [off]"),
]
VerboseOption = Annotated[bool, Option("--verbose", "-v", help="log more")]
LogFormatOption = Annotated[LogFormat, Option(help="the format of log lines")]


class Signals:
    """SIGINT and SIGTERM as something to wait for, once each."""

    def __init__(self) -> None:
        self._heard = asyncio.Semaphore(0)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._heard.release)

    async def heard(self) -> None:
        """Until one comes."""
        await self._heard.acquire()

    async def unless_heard(self, work: Coroutine[object, object, None]) -> bool:
        """Do this work; False when a signal came meanwhile, which cuts it short."""
        doing, hearing = asyncio.ensure_future(work), asyncio.ensure_future(self.heard())
        try:
            await asyncio.wait({doing, hearing}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                doing.result()
            return not hearing.done()
        finally:
            doing.cancel()
            hearing.cancel()
            await asyncio.gather(doing, hearing, return_exceptions=True)


class ProgressLine:
    """One line on a terminal that each report overwrites; silence elsewhere."""

    def __init__(self) -> None:
        self._on_terminal = sys.stderr.isatty()

    def show(self, line: str) -> None:
        if self._on_terminal:
            sys.stderr.write(f"\r\033[K{line}")
            sys.stderr.flush()

    def clear(self) -> None:
        self.show("")
