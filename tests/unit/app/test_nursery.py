"""A process that bears others, and takes them along when its parent goes."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from klamm.app.nursery import Nursery
from klamm.model.errors import KlammError

# A nursery of children that say their pid and then wait for their socket to close.
CHILD = """
import os, socket, sys
from klamm.app.nursery import bear

def life(channel):
    channel.send(str(os.getpid()).encode())
    return channel.recv(1) and 7

sys.exit(bear(socket.socket(fileno=int(sys.argv[1])), life))
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "a_nursery.py").write_text(CHILD)
    monkeypatch.syspath_prepend(tmp_path)
    return "a_nursery"


def is_gone(pid: int) -> bool:
    """Wait for a process that is nobody's child of ours to end."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        ended, _, _ = select.select([handle], [], [], 10)
        return bool(ended)
    finally:
        os.close(handle)


async def test_children_are_born_and_their_ends_told(module: str) -> None:
    nursery = Nursery.start(module)
    ends: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
    nursery.attach(lambda pid, status: ends.put_nowait((pid, status)), lambda: None)
    loop = asyncio.get_running_loop()
    try:
        ours, its = socket.socketpair()
        ours.setblocking(False)
        with ours:
            with its:
                pid = await nursery.bear(its)
            assert int(await loop.sock_recv(ours, 64)) == pid
            await loop.sock_sendall(ours, b"x")
            ended, status = await ends.get()
        assert (ended, os.waitstatus_to_exitcode(status)) == (pid, 7)

        ours, its = socket.socketpair()
        with ours, its:
            second = await nursery.bear(its)
            os.kill(second, signal.SIGKILL)
            assert await ends.get() == (second, signal.SIGKILL)
    finally:
        nursery.close()
        nursery.close()  # a second time does nothing


async def test_who_closes_it_ends_its_children_also_paused_ones(module: str) -> None:
    nursery = Nursery.start(module)
    nursery.attach(lambda *_: None, lambda: None)
    ours, its = socket.socketpair()
    with ours, its:
        pid = await nursery.bear(its)
        assert ours.recv(64) == str(pid).encode(), "it has begun to live"
        os.kill(pid, signal.SIGSTOP)
        nursery.close()
        assert is_gone(pid)
        with pytest.raises(KlammError, match="has ended"):
            await nursery.bear(its)


async def test_children_die_with_a_nursery_that_is_killed(module: str) -> None:
    nursery = Nursery.start(module)
    nursery.attach(lambda *_: None, lambda: None)
    ours, its = socket.socketpair()
    with ours, its:
        pid = await nursery.bear(its)
        assert ours.recv(64) == str(pid).encode(), "it has begun to live"
        os.kill(pid, signal.SIGSTOP)
        os.kill(nursery.pid, signal.SIGKILL)
        assert is_gone(pid)
    nursery.close()


def test_a_forked_nursery_and_its_children_die_with_a_parent_that_is_killed() -> None:
    code = """
import asyncio, os, socket
from klamm.app.nursery import Nursery
nursery = Nursery.fork(lambda channel: channel.recv(1) and 0)
async def main():
    nursery.attach(lambda *_: None, lambda: None)
    ours, its = socket.socketpair()
    pid = await nursery.bear(its)
    print(nursery.pid, pid, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        parent.kill()
        assert len(pids) == 2
        assert all(map(is_gone, pids))


async def test_the_end_of_a_nursery_is_told(module: str) -> None:
    nursery = Nursery.start(module)
    lost = asyncio.Event()
    nursery.attach(lambda *_: None, lost.set)
    os.kill(nursery.pid, signal.SIGKILL)
    await asyncio.wait_for(lost.wait(), 10)
    nursery.close()
