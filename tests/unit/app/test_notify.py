"""The words that systemd hears."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from klamm.app.notify import Notifier


@pytest.fixture
def heard(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(str(tmp_path / "notify"))
        ear.settimeout(5)
        yield ear


def test_a_service_says_how_it_is_doing(tmp_path: Path, heard: socket.socket) -> None:
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
    notifier = Notifier(environment)
    assert environment == {}, "what it starts is not to speak in its name"
    notifier.status("log 1 of 3\nREADY=1")
    notifier.ready()
    notifier.stopping()
    said = [heard.recv(4096).decode() for _ in range(3)]
    assert said == [
        "STATUS=log 1 of 3 READY=1\nEXTEND_TIMEOUT_USEC=60000000",
        "READY=1\nSTATUS=serving",
        "STOPPING=1\nSTATUS=stopping",
    ]
    notifier.close()


def test_a_name_with_an_at_sign_is_an_abstract_one() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind("")  # the system chooses an abstract name
        ear.settimeout(5)
        name = ear.getsockname().decode()
        notifier = Notifier({"NOTIFY_SOCKET": f"@{name[1:]}"})
        notifier.ready()
        assert ear.recv(4096).startswith(b"READY=1")
        notifier.close()


async def test_the_watchdog_is_fed_where_it_asks(tmp_path: Path, heard: socket.socket) -> None:
    asked = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "20000"}
    notifier = Notifier({**asked, "WATCHDOG_PID": str(os.getpid())})
    watching = asyncio.create_task(notifier.watch())
    loop = asyncio.get_running_loop()
    heard.setblocking(False)
    for _ in range(3):
        assert await loop.sock_recv(heard, 4096) == b"WATCHDOG=1"
    watching.cancel()
    notifier.close()
    another = Notifier({**asked, "WATCHDOG_PID": "1"})
    await another.watch()  # returns: it is somebody else's
    another.close()


def test_where_nobody_listens_nothing_is_said() -> None:
    Notifier({}).ready()
    gone = Notifier({"NOTIFY_SOCKET": "/nowhere/notify"})
    gone.ready()
    gone.close()
