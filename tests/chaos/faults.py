"""The things that go wrong, each with its end."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from chaos.world import BROKERS, SESSION_MS, World

_BEYOND_SESSION_S = 1.5 * SESSION_MS / 1000 + 1
_BIT_BY_BIT = 2 << 20


@dataclass(frozen=True, slots=True)
class Happened:
    """One fault: what, to whom, from when to when."""

    what: str
    whom: str
    began: float
    ended: float


class Faults:
    """Lets one thing after the other go wrong; what is next is a matter of the seed."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.happened: list[Happened] = []
        self._dice = random.Random(seed)
        self._round: list[Callable[[int], str]] = []
        self._kinds: list[Callable[[int], str]] = [
            self.kill,
            self.freeze,
            self.cut,
            self.swallow,
            self.delay,
            self.expire,
            self.kill_store,
            self.freeze_store,
            self.slow_store,
            self.jump,
            self.slow_disk,
            self.stop,
        ]
        if world.disks:
            self._kinds.append(self.fill)

    @property
    def kinds(self) -> int:
        return len(self._kinds)

    def next(self) -> None:
        """One fault, from its beginning to its end."""
        self._start_those_that_ended()
        if not self._round:
            # Each kind once before any comes again.
            self._round = self._dice.sample(self._kinds, len(self._kinds))
        fault = self._round.pop()
        victim = self._victim()
        began = time.monotonic()
        whom = fault(victim)
        what = fault.__name__.replace("_", " ")
        self.happened.append(Happened(what, whom, began, time.monotonic()))

    def _start_those_that_ended(self) -> None:
        """A broker without a disk ends, and may take some time over it; an operator comes by."""
        for broker in self.world.brokers.values():
            if not broker.runs:
                began = time.monotonic()
                broker.start()
                self.happened.append(
                    Happened("come back", f"broker {broker.id}", began, time.monotonic())
                )

    def _victim(self) -> int:
        """Half of the time it is the controller."""
        if self._dice.random() < 0.5:
            with suppress(Exception):
                return self.world.controller() or 0
        return self._dice.choice(BROKERS)

    def kill(self, victim: int) -> str:
        """kill -9, and a new start."""
        broker = self.world.brokers[victim]
        broker.kill()
        time.sleep(self._dice.choice((0.0, 1.0, _BEYOND_SESSION_S)))
        broker.start()
        return f"broker {victim}"

    def stop(self, victim: int) -> str:
        """A controlled stop, and a new start."""
        broker = self.world.brokers[victim]
        broker.stop()
        broker.start()
        return f"broker {victim}"

    def freeze(self, victim: int) -> str:
        """SIGSTOP for longer than a session lasts."""
        broker = self.world.brokers[victim]
        broker.signal(signal.SIGSTOP)
        time.sleep(_BEYOND_SESSION_S)
        broker.signal(signal.SIGCONT)
        return f"broker {victim}"

    def cut(self, victim: int) -> str:
        """Nobody reaches the broker; it reaches everybody."""
        front = self.world.chaos_broker(victim).front
        front.cut()
        time.sleep(self._dice.uniform(1, _BEYOND_SESSION_S))
        front.mend()
        return f"the way to broker {victim}"

    def swallow(self, victim: int) -> str:
        """What is sent to the broker is lost, and no connection ends."""
        front = self.world.chaos_broker(victim).front
        front.swallow()
        time.sleep(self._dice.uniform(1, _BEYOND_SESSION_S))
        front.mend()
        return f"the way to broker {victim}"

    def delay(self, victim: int) -> str:
        """A slow link."""
        front = self.world.chaos_broker(victim).front
        front.delay(self._dice.choice((0.05, 0.2)))
        time.sleep(2)
        front.mend()
        return f"the way to broker {victim}"

    def expire(self, victim: int) -> str:
        """The broker loses the store until its session is over."""
        with _each(self.world, victim):
            time.sleep(_BEYOND_SESSION_S)
        return f"the session of broker {victim}"

    def kill_store(self, victim: int) -> str:
        """The store's process, or the leader of its ensemble, is killed and comes back."""
        node = self.world.store_leader()
        node.kill()
        time.sleep(self._dice.uniform(0, 1))
        node.launch()
        node.wait()
        return "the store"

    def freeze_store(self, victim: int) -> str:
        """The store's process, or the leader of its ensemble, is stopped for some seconds."""
        node = self.world.store_leader()
        node.signal(signal.SIGSTOP)
        time.sleep(self._dice.uniform(1, _BEYOND_SESSION_S))
        node.signal(signal.SIGCONT)
        return "the store"

    def slow_store(self, victim: int) -> str:
        """A slow link between a broker and the store."""
        for way in self.world.ways[victim]:
            way.delay(0.2)
        time.sleep(3)
        for way in self.world.ways[victim]:
            way.mend()
        return f"the ways of broker {victim} to the store"

    def slow_disk(self, victim: int) -> str:
        """Whatever a broker writes takes its time."""
        broker = self.world.brokers[victim]
        broker.signal(signal.SIGHUP)
        time.sleep(3)
        broker.signal(signal.SIGHUP)
        return f"the disk of broker {victim}"

    def jump(self, victim: int) -> str:
        """The clock of a broker is set by an hour, and back."""
        broker = self.world.brokers[victim]
        there, back = self._dice.sample((signal.SIGUSR1, signal.SIGUSR2), 2)
        broker.signal(there)
        time.sleep(1.5)
        broker.signal(back)
        return f"the clock of broker {victim}"

    def fill(self, victim: int) -> str:
        """The disk of a broker is full."""
        filler = self.world.brokers[victim].directory / "filler"
        # It may be full already: then there is no room for a name either.
        with suppress(OSError), filler.open("wb") as file:
            disk = os.statvfs(file.fileno())
            # Most of it at once; the rest bit by bit, for the broker writes meanwhile.
            most = max(1, disk.f_bavail * disk.f_frsize - _BIT_BY_BIT)
            os.posix_fallocate(file.fileno(), 0, most)
            file.seek(most)
            while True:
                file.write(bytes(16 * 1024))
                file.flush()
        time.sleep(2)
        filler.unlink(missing_ok=True)
        return f"the disk of broker {victim}"


@contextmanager
def _each(world: World, victim: int) -> Iterator[None]:
    for way in world.ways[victim]:
        way.cut()
    try:
        yield
    finally:
        for way in world.ways[victim]:
            way.mend()
