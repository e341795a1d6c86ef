"""A process that does nothing but bear others.

It is forked, or started, while there is one thread and no loop, and has imported all that a broker
needs. So a broker that it forks begins at once, shares the memory of what was imported, and
inherits nobody's threads or locks, also when it is a restart in the middle of a busy day.

    parent --- "fork" and a socket --> nursery --- fork --> a child with that socket
           <-- the child's pid ------
           <-- its pid and how it ended, once it has ended

A child dies with the nursery (PR_SET_PDEATHSIG), and the nursery with the parent: it ends its
children, paused ones too, and then itself when the parent's end of the socket closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Final

from klamm.model.errors import KlammError

Life = Callable[[socket.socket], int]  # what a child does with its socket, and its exit code
Ended = Callable[[int, int], None]  # a pid, and how it ended as `os.waitpid` says

_FORK: Final = b"fork"
_MESSAGE_MAX: Final = 64
_PR_SET_PDEATHSIG: Final = 1


class Nursery:
    """The parent's end."""

    def __init__(self, channel: socket.socket, pid: int) -> None:
        self._channel = channel
        self.pid = pid
        self._births: list[asyncio.Future[int]] = []  # asked for, in their order
        self._on_end: Ended | None = None
        self._on_loss: Callable[[], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @classmethod
    def fork(cls, life: Life) -> Nursery:
        """A nursery out of this process, which must have one thread and no loop."""
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            ours.close()
            end_with(parent)
            _live(lambda: bear(its, life))
        its.close()
        return cls(ours, pid)

    @classmethod
    def start(cls, module: str) -> Nursery:
        """A nursery from a new Python that runs this module, for a process with threads."""
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            process = subprocess.Popen(
                [sys.executable, "-m", module, str(its.fileno()), str(os.getpid())],
                pass_fds=[its.fileno()],
                # What this program can import, such as a policy, its brokers can.
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        process.returncode = 0  # it is waited for below, not by Popen
        return cls(ours, process.pid)

    def attach(self, on_end: Ended, on_loss: Callable[[], None]) -> None:
        """Hear of ends on the running loop; and of its own, which is that of all its children."""
        self._on_end = on_end
        self._on_loss = on_loss
        self._channel.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._channel, self._heard)

    async def bear(self, channel: socket.socket) -> int:
        """Have a child that gets this socket; its pid."""
        assert self._loop is not None, "nobody hears of what the nursery says"
        birth: asyncio.Future[int] = self._loop.create_future()
        self._births.append(birth)
        try:
            socket.send_fds(self._channel, [_FORK], [channel.fileno()])
        except OSError as error:
            self._births.remove(birth)
            raise _gone() from error
        return await birth

    def close(self) -> None:
        """End it and all its children, and hear of them no more; they are gone on return."""
        if self._channel.fileno() < 0:
            return
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._channel)
        self._channel.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self._forget_births()

    def _heard(self) -> None:
        try:
            message = self._channel.recv(_MESSAGE_MAX)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if not message:
            assert self._loop is not None, "it was attached"
            self._loop.remove_reader(self._channel)
            self._forget_births()
            if self._on_loss is not None:
                self._on_loss()
            return
        pid, *ended = map(int, message.split())
        if ended:
            if self._on_end is not None:
                self._on_end(pid, ended[0])
        else:
            birth = self._births.pop(0)
            if not birth.done():
                birth.set_result(pid)

    def _forget_births(self) -> None:
        for birth in self._births:
            if not birth.done():
                birth.set_exception(_gone())
        self._births.clear()


def _gone() -> KlammError:
    return KlammError("the process that starts brokers has ended; start the cluster again")


# The nursery's own side.


def bear(channel: socket.socket, life: Life) -> int:
    """Fork on demand until the parent hangs up; then end all children."""
    channel.setblocking(False)
    gc.collect()
    gc.freeze()  # a collection in a child would copy all the pages it looks at
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    children: set[int] = set()
    with selectors.DefaultSelector() as ready:
        ready.register(channel, selectors.EVENT_READ)
        ready.register(woken, selectors.EVENT_READ)
        while True:
            ready.select()
            with contextlib.suppress(BlockingIOError):
                os.read(woken, 4096)
            _report_ends(channel, children)
            if not _serve(channel, children, life):
                return _end_all(children)


def _serve(channel: socket.socket, children: set[int], life: Life) -> bool:
    """Do what the parent asks, if it does; False when it is gone."""
    try:
        message, descriptors, _, _ = socket.recv_fds(channel, _MESSAGE_MAX, 1)
    except BlockingIOError:
        return True
    except OSError:
        return False
    if message != _FORK:
        return False
    given = socket.socket(fileno=descriptors[0])
    nursery = os.getpid()
    pid = os.fork()
    if pid == 0:
        channel.close()
        end_with(nursery)
        _live(lambda: _childhood(given, life))
    given.close()
    children.add(pid)
    return _say(channel, f"{pid}")


def _childhood(channel: socket.socket, life: Life) -> int:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return life(channel)


def _report_ends(channel: socket.socket, children: set[int]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        children.discard(pid)
        _say(channel, f"{pid} {status}")


def _say(channel: socket.socket, text: str) -> bool:
    """Tell the parent something; False when it is gone."""
    while True:
        try:
            channel.send(text.encode())
        except BlockingIOError:
            select.select([], [channel], [])
        except OSError:
            return False
        else:
            return True


def _end_all(children: set[int]) -> int:
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    for pid in children:
        os.waitpid(pid, 0)
    return 0


def end_with(parent: int) -> None:
    """Have the system kill this process when its parent dies, however that dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)  # it has died already


def _live(life: Callable[[], int]) -> None:
    """The rest of a forked process: nothing of its parent's is unwound or flushed."""
    code = 1
    try:
        code = life()
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else 1
    except BaseException:  # noqa: BLE001 - the top of the process
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)
