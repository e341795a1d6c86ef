"""Talk between two processes of a cluster on one machine: JSON, a line each.

Either side may ask, and is answered, or tell, and is not. Asks are served side by side and answered
as they are done. When the other side hangs up, whatever was asked of it fails, and what it asked is
cancelled.

The socket is one that only processes of the same user can have; its lines are bounded all the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any, Final, Self

from klamm.model.errors import KlammError, UsageError

log = logging.getLogger(__name__)

# The views of a cluster with 100,000 partitions fit in.
LINE_BYTES_MAX: Final = 64 * 1024 * 1024

_WORDS: Final = {"ask", "answer", "tell"}

Details = Mapping[str, Any]
Serve = Callable[[str, Details], Awaitable[object]]
Hear = Callable[[str, Details], None]


class HungUp(KlammError):
    """The other side has gone before it answered."""


class ParentTalk:
    """One side of a talk; `run` must run for anything to be heard."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        serve: Serve | None = None,
        hear: Hear | None = None,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._serve = serve
        self._hear = hear
        self._numbers = count(1)
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._has_ended = False

    @classmethod
    async def over(
        cls, channel: socket.socket, *, serve: Serve | None = None, hear: Hear | None = None
    ) -> Self:
        """A talk over a connected socket, which belongs to it from now on."""
        reader, writer = await asyncio.open_unix_connection(sock=channel, limit=LINE_BYTES_MAX)
        return cls(reader, writer, serve=serve, hear=hear)

    async def ask(self, what: str, **details: Any) -> Any:
        """The other side's answer; HungUp where it goes away first."""
        if self._has_ended:
            raise HungUp("the other side has gone")
        number = next(self._numbers)
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            self._send({"ask": number, "what": what, **details})
            return await answer
        finally:
            del self._asked[number]

    def tell(self, what: str, **details: Any) -> None:
        """Say something that needs no answer, to whoever is still there."""
        if not self._has_ended:
            self._send({"tell": what, **details})

    async def run(self) -> None:
        """Hear and answer until the other side hangs up."""
        try:
            async with asyncio.TaskGroup() as serving:
                while line := await self._line():
                    self._take(line, serving)
                raise _Ended
        except* (_Ended, ConnectionError):
            pass
        finally:
            self.hang_up()

    def hang_up(self) -> None:
        self._has_ended = True
        self._writer.close()
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(HungUp("the other side has gone"))

    async def closed(self) -> None:
        """Until the socket is gone."""
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _line(self) -> bytes:
        try:
            return await self._reader.readline()
        except ValueError as error:
            raise _Ended from error  # nobody of ours says so much at once

    def _take(self, line: bytes, serving: asyncio.TaskGroup) -> None:
        try:
            message = json.loads(line)
        except ValueError as error:
            raise _Ended from error
        if not isinstance(message, dict) or not (_WORDS & message.keys()):
            raise _Ended  # whoever speaks like this is none of ours
        if "answer" in message:
            self._answered(message)
        elif "tell" in message:
            if self._hear is not None:
                self._hear(message.pop("tell"), message)
        else:
            number, what = message.pop("ask"), message.pop("what", "")
            serving.create_task(self._answer(number, what, message))

    async def _answer(self, number: int, what: str, details: Details) -> None:
        reply: dict[str, Any] = {"answer": number}
        try:
            if self._serve is None:
                raise UsageError("nothing can be asked here")
            reply["value"] = await self._serve(what, details)
        except (KlammError, OSError, TimeoutError) as error:
            reply |= fault_of(error)
        except Exception as error:
            log.error("an ask could not be served", exc_info=error, extra={"what": what})
            reply["fault"] = f"unexpected {type(error).__name__}: {error}"
        if not self._has_ended:
            self._send(reply)

    def _answered(self, message: dict[str, Any]) -> None:
        answer = self._asked.get(message["answer"])
        if answer is None or answer.done():
            return
        if "fault" in message:
            answer.set_exception(error_of(message))
        else:
            answer.set_result(message.get("value"))

    def _send(self, message: Details) -> None:
        self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")


class _Ended(Exception):
    """The other side has hung up."""


def fault_of(error: Exception) -> dict[str, Any]:
    """An error as it travels."""
    return {
        "fault": str(error) or type(error).__name__,
        "is_usage": isinstance(error, UsageError),
        "is_late": isinstance(error, TimeoutError),
    }


def error_of(message: Details) -> Exception:
    """The error that has travelled."""
    if message.get("is_late"):
        return TimeoutError(message["fault"])
    return (UsageError if message.get("is_usage") else KlammError)(message["fault"])
