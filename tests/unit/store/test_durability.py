"""What was acknowledged is there after the process was killed, and nothing is half there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from klamm.store.embedded import EmbeddedStore
from klamm.store.port import Create

# Writes until it is killed. Every multi makes one node below each of three parents; one line on
# stdout says that it was acknowledged, and its transaction. Eight writers keep commits shared.
WRITER = """
import asyncio, os, sys
from klamm.store.embedded import EmbeddedStore
from klamm.store.port import Create

async def write(session, name):
    for i in range(1_000_000):
        number = f"{name}.{i}"
        results = await session.multi([Create(f"/{p}/{number}", number.encode()) for p in "abc"])
        assert all(r.ok for r in results)
        os.write(1, f"{number} {results[0].stat.czxid}\\n".encode())

async def main():
    store = EmbeddedStore.open(sys.argv[1], fsync=sys.argv[3] == "True")
    session = await store.connect()
    await session.multis([[Create(f"/{p}")] for p in "abc"])
    await session.multi([Create("/writer", ephemeral=True)])
    await asyncio.gather(*(write(session, f"{sys.argv[2]}-{n}") for n in range(8)))

asyncio.run(main())
"""


def _write_until_killed(
    path: Path, round_number: int, acknowledged_at_least: int, *, fsync: bool
) -> dict[str, int]:
    """The numbers acknowledged before the writer was killed, and their transactions."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(round_number), str(fsync)],
        stdout=subprocess.PIPE,
    )
    assert writer.stdout is not None
    seen = b""
    try:
        while seen.count(b"\n") < acknowledged_at_least:
            chunk = os.read(writer.stdout.fileno(), 65536)
            assert chunk, "the writer ended by itself"
            seen += chunk
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        seen += writer.stdout.read()
        writer.stdout.close()
    lines = [line.split() for line in seen.decode().split("\n")[:-1]]
    return {number: int(zxid) for number, zxid in lines}


@pytest.mark.parametrize("fsync", [True, False])
async def test_acknowledged_writes_survive_a_killed_process(tmp_path: Path, fsync: bool) -> None:
    path = tmp_path / "store.db"
    acknowledged: dict[str, int] = {}
    for round_number, at_least in enumerate((1, 40, 333)):
        acknowledged |= _write_until_killed(path, round_number, at_least, fsync=fsync)
        store = EmbeddedStore.open(path, fsync=fsync)
        session = await store.connect()
        a, b, c = [await session.children(f"/{parent}") for parent in "abc"]
        assert a is not None
        assert a == b == c, "a multi is half there"
        assert acknowledged.keys() <= set(a), "an acknowledged multi is lost"
        nodes = await session.get_many([f"/{parent}/{n}" for parent in "abc" for n in a])
        assert [node and node.data for node in nodes] == [n.encode() for n in a] * 3
        assert await session.get("/writer") is None, "its owner is dead"
        (made,) = await session.multi([Create(f"/round-{round_number}")])
        assert made.stat is not None
        assert made.stat.czxid > max(acknowledged.values())
        await store.close()
