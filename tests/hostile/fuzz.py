"""Sends hostile inputs by the thousand, watches everybody else, and keeps what it finds.

    python tests/hostile/fuzz.py --inputs 1000000 --seed 7 --report REPORT.json

Inputs are pipelined, some dozens on a connection. Where a broker hangs up, the answers so far tell
which input it hung up on; those behind it are sent again, so every input that is counted was really
read. After each block the log is looked at: a fault there is searched for by sending the block once
more, one by one, and the input that repeats it is written to the corpus.

A run goes on where its report ends: the report says how many blocks are done.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import selectors
import socket
import struct
import sys
import tempfile
import time
import uuid
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from hostile.catalogue import SETTINGS
from hostile.inputs import BLOCK, VICTIMS, Input, block
from hostile.raw import Address, Closed, ask, create, leader_of
from hostile.target import Target, target
from klamm.model.errors import KlammError
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import metadata

CORPUS: Final = Path(__file__).with_name("corpus")
CONNECTIONS: Final = 32
PIPELINED: Final = 32
ANSWER_S: Final = 4.0


@dataclass
class Report:
    """What a run has seen so far."""

    seed: int
    blocks: int = 0
    inputs: int = 0
    answered: int = 0
    hung_up: int = 0
    waited: int = 0  # not answered in time: joins, fetches and the like may wait
    seconds: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)  # of the healthy user
    memory_before_mb: float = 0.0
    memory_after_mb: float = 0.0
    faults: list[dict[str, Any]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)

    def percentile(self, share: float) -> float | None:
        took = sorted(self.latencies_ms)
        return took[min(int(len(took) * share), len(took) - 1)] if took else None

    def summary(self) -> dict[str, Any]:
        told = {name: getattr(self, name) for name in self.__dataclass_fields__}
        del told["latencies_ms"], told["kinds"]
        return {
            **told,
            "inputs_per_s": round(self.inputs / self.seconds) if self.seconds else None,
            "healthy": {
                "round_trips": len(self.latencies_ms),
                **{f"p{int(s * 100)}_ms": self.percentile(s) for s in (0.5, 0.99)},
                "max_ms": self.percentile(1.0),
            },
            "apis_and_versions": sum("," not in k and "sent" not in k for k in self.kinds),
        }


class _Line:
    """One connection with inputs on their way."""

    def __init__(self, address: Address) -> None:
        self.socket = socket.create_connection(address, 5)
        self.socket.setblocking(False)
        self.sent: deque[Input] = deque()
        self.out = memoryview(b"")
        self.got = bytearray()
        self.last = time.monotonic()

    def give(self, inputs: Sequence[Input]) -> None:
        self.sent.extend(inputs)
        self.out = memoryview(b"".join(i.data for i in inputs))

    def write(self) -> None:
        if self.out:
            self.out = self.out[self.socket.send(self.out) :]

    def read(self) -> int:
        """Takes what came; how many answers that were. `Closed` at the end of the stream."""
        data = self.socket.recv(1 << 18)
        if not data:
            raise Closed("hung up")
        self.got += data
        self.last = time.monotonic()
        answers, at = 0, 0
        while len(self.got) - at >= 4:
            (size,) = struct.unpack_from(">i", self.got, at)
            if size < 0 or len(self.got) - at - 4 < size:
                break
            at += 4 + size
            answers += 1
        del self.got[:at]
        return answers


def send(addresses: Sequence[Address], inputs: Sequence[Input], report: Report) -> None:
    """Send all of these, each to some broker, and account for every one."""
    waiting = deque(inputs)
    turn = 0
    with selectors.DefaultSelector() as selector:
        lines: set[_Line] = set()
        while waiting or lines:
            while waiting and len(lines) < CONNECTIONS:
                turn += 1
                line = _Line(addresses[turn % len(addresses)])
                line.give(_chunk(waiting))
                lines.add(line)
                selector.register(line.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, line)
            for key, events in selector.select(0.2):
                _serve(key.data, events, selector, report)
            now = time.monotonic()
            for line in list(lines):
                if line.sent and now - line.last < ANSWER_S and line.socket.fileno() >= 0:
                    continue
                lines.discard(line)
                if line.sent:
                    _give_up(line, report)
                waiting.extend(line.sent)
                _close(line, selector)


def _chunk(waiting: deque[Input]) -> list[Input]:
    """Inputs for one connection: what is no whole frame must be the last."""
    chunk: list[Input] = []
    while waiting and len(chunk) < PIPELINED:
        chunk.append(waiting.popleft())
        if not chunk[-1].is_whole:
            break
    return chunk


def _serve(line: _Line, events: int, selector: selectors.BaseSelector, report: Report) -> None:
    try:
        if events & selectors.EVENT_WRITE:
            line.write()
            if not line.out:
                selector.modify(line.socket, selectors.EVENT_READ, line)
                if not line.sent[-1].is_whole:
                    # Nothing follows: a broker that waits for the rest sees the end instead.
                    line.socket.shutdown(socket.SHUT_WR)
        if events & selectors.EVENT_READ:
            for _ in range(line.read()):
                line.sent.popleft()
                report.answered += 1
                report.inputs += 1
    except (BlockingIOError, InterruptedError):
        return
    except (Closed, OSError, IndexError):
        if line.sent:
            line.sent.popleft()
            report.hung_up += 1
            report.inputs += 1
        _close(line, selector)


def _give_up(line: _Line, report: Report) -> None:
    """The first input is one that waits; those behind it have their turn on another connection."""
    if line.socket.fileno() >= 0:
        line.sent.popleft()
        report.waited += 1
        report.inputs += 1


def _close(line: _Line, selector: selectors.BaseSelector) -> None:
    if line.socket.fileno() >= 0:
        selector.unregister(line.socket)
        line.socket.close()


def prepare(running: Target) -> tuple[uuid.UUID, ...]:
    """The attacker's topics; their ids."""
    for name in VICTIMS:
        create(running.address(), name, 2, 1)
        leader_of(running.address(), name)
    wanted = [metadata.MetadataRequestTopic(name=name) for name in VICTIMS]
    told = ask(running.address(), ApiKey.METADATA, 12, metadata.Request(wanted, False))
    return tuple(topic.topic_id for topic in told.topics)


def attack(running: Target, report: Report, blocks: int, *, corpus: Path | None = None) -> None:
    """Send blocks of inputs until as many are done; stop at the first fault that is no refusal."""
    ids = prepare(running)
    report.memory_before_mb = report.memory_before_mb or round(running.memory_mb(), 1)
    leaders = running.leaders()
    for number, inputs in _blocks(report.seed, range(report.blocks, blocks), ids):
        report.kinds.update(made.what for made in inputs)
        seen_from, began = len(running.samples), time.monotonic()
        send(running.addresses, inputs, report)
        report.seconds += time.monotonic() - began
        report.blocks = number + 1
        report.latencies_ms += [round(s.took_s * 1000, 2) for s in running.samples[seen_from:]]
        if not running.is_alive:
            report.broken.append(f"block {number}: the cluster died")
            return
        if errors := running.new_errors():
            report.faults.append(_culprit(running, inputs, number, errors, corpus))
    report.memory_after_mb = round(running.memory_mb(), 1)
    _judge(running, report, leaders)


def _blocks(
    seed: int, numbers: range, ids: tuple[uuid.UUID, ...]
) -> Iterator[tuple[int, list[Input]]]:
    """The blocks in order; of many, the next one is made in another process while one is sent."""
    if len(numbers) < 10:
        yield from ((number, block(seed, number, ids)) for number in numbers)
        return
    with ProcessPoolExecutor(1, mp_context=get_context("forkserver")) as maker:
        coming = deque(maker.submit(block, seed, number, ids) for number in numbers[:2])
        for number in numbers:
            made = coming.popleft().result()
            if number + 2 in numbers:
                coming.append(maker.submit(block, seed, number + 2, ids))
            yield number, made


def _judge(running: Target, report: Report, leaders: dict[int, int]) -> None:
    """What must hold at the end."""
    if not running._answers_again(time.monotonic(), 30):
        report.broken.append("the healthy user does not get through any more")
    with suppress(OSError, Closed, KlammError):
        if running.leaders() != leaders:
            report.broken.append("leaders of the healthy user changed")
    if not running.precious_is_whole() or running.foreign_files():
        report.broken.append(f"files outside of the data: {running.foreign_files()}")
    running.stop_user()
    try:
        lost = running.lost_records()
    except Exception as fault:  # noqa: BLE001 - whatever keeps a reader from reading
        report.broken.append(f"records cannot be read: {fault}")
    else:
        if lost:
            report.broken.append(f"{len(lost)} acknowledged records are gone")


def _culprit(
    running: Target, inputs: list[Input], number: int, errors: list[str], corpus: Path | None
) -> dict[str, Any]:
    """The input behind a fault, found by sending the block again one by one."""
    found = {"block": number, "errors": [e[-700:] for e in errors[:2]], "input": None}
    deadline = time.monotonic() + 60
    for made in inputs:
        if time.monotonic() > deadline or not running.is_alive:
            break
        for address in running.addresses:
            with suppress(OSError, Closed):
                send([address], [made], Report(0))
        if running.new_errors():
            found["input"] = made.what
            found["bytes"] = made.data[:200].hex()
            if corpus is not None:
                name = hashlib.sha256(made.data).hexdigest()[:16]
                (corpus / f"{name}.bin").write_bytes(made.data)
                found["file"] = name
            break
    return found


def replay(running: Target, corpus: Path = CORPUS) -> int:
    """Send every input of the corpus to every broker; how many there were."""
    kept = sorted(corpus.glob("*.bin"))
    inputs = [Input(path.read_bytes(), path.stem, False) for path in kept]
    for address in running.addresses:
        send([address], inputs, Report(0))
    return len(inputs)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, default=_env("KLAMM_HOSTILE_INPUTS", 100_000))
    parser.add_argument("--seed", type=int, default=_env("KLAMM_HOSTILE_SEED", 0))
    parser.add_argument("--report", type=Path)
    parser.add_argument("--keep", action="store_true", help="write found inputs to the corpus")
    asked = parser.parse_args()
    report = _resumed(asked.report, asked.seed or random.randrange(1, 1 << 31))
    sys.stdout.write(f"seed {report.seed}, from block {report.blocks}\n")
    blocks, step = -(-asked.inputs // BLOCK), 50
    with tempfile.TemporaryDirectory() as place:
        while report.blocks < blocks and not report.broken:
            with target(Path(place) / f"from-{report.blocks}", settings=SETTINGS) as running:
                _run(running, report, blocks, step, asked)
    return 1 if report.faults or report.broken else 0


def _run(
    running: Target, report: Report, blocks: int, step: int, asked: argparse.Namespace
) -> None:
    """Blocks until all are done or the cluster is lost, with a report every few."""
    while report.blocks < blocks:
        until = min(report.blocks + step, blocks)
        attack(running, report, until, corpus=CORPUS if asked.keep else None)
        told = report.summary()
        sys.stdout.write(
            f"{report.inputs} inputs, {told['inputs_per_s']}/s, healthy {told['healthy']}, "
            f"{running.memory_mb():.0f} MB, {len(report.faults)} faults, {report.broken}\n"
        )
        sys.stdout.flush()
        if asked.report is not None:
            saved = {**told, "latencies_ms": report.latencies_ms[-20_000:]}
            asked.report.write_text(json.dumps(saved, indent=1) + "\n")
        if report.broken:
            return
        running.start_user()


def _resumed(path: Path | None, seed: int) -> Report:
    if path is None or not path.exists():
        return Report(seed)
    told = json.loads(path.read_text())
    names = set(Report.__dataclass_fields__) - {"kinds"}
    return Report(**{name: told[name] for name in names if name in told})


def _env(name: str, default: int) -> int:
    return int(os.environ.get(name) or default)


if __name__ == "__main__":
    sys.exit(main())
