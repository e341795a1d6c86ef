"""A store whose file is lost takes no writes any more, keeps what it acknowledged, and says so."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from klamm.model.errors import StoreUnavailable
from klamm.store import backups
from klamm.store.backups import Policy
from klamm.store.database import read_copy
from klamm.store.embedded import EmbeddedSession, EmbeddedStore
from klamm.store.port import Create, SessionState
from klamm.store.presence import StoreLost


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def _unlink(path: Path) -> None:
    path.unlink()


def _truncate(path: Path) -> None:
    os.truncate(path, 0)


def _replace(path: Path) -> None:
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    copy.rename(path)


def _unlink_wal(path: Path) -> None:
    path.with_name("store.db-wal").unlink()


LOSSES = [_unlink, _truncate, _replace, _unlink_wal]


async def _rescued(path: Path) -> Path:
    """The rescue, once it is written."""
    async with asyncio.timeout(10):
        while True:
            for found in backups.find(backups.directory_of(path)):
                if found.is_rescue:
                    return found.path
            await asyncio.sleep(0.01)


async def _states(session: EmbeddedSession) -> asyncio.Queue[SessionState]:
    heard: asyncio.Queue[SessionState] = asyncio.Queue()
    session.watch_state(heard.put_nowait)
    return heard


@pytest.mark.parametrize("lose", LOSSES)
async def test_no_write_is_acknowledged_once_the_file_is_lost(
    path: Path, lose: Callable[[Path], None]
) -> None:
    store = EmbeddedStore.open(path)
    session = await store.connect()
    await session.multi([Create("/kept", b"1"), Create("/mine", ephemeral=True)])
    heard = await _states(session)
    lose(path)
    with pytest.raises(StoreLost, match="is lost"):
        await session.multi([Create("/late")])
    with pytest.raises(StoreUnavailable):
        await session.multi([Create("/later")])
    assert await session.get("/late") is None
    assert (await asyncio.wait_for(heard.get(), 5)) is SessionState.LAPSED
    tree = read_copy(await _rescued(path))
    assert set(tree.entries) == {"/", "/kept"}
    assert (path.parent / backups.LOST_MARK).exists()
    with pytest.raises(StoreLost):
        await store.connect()
    await store.close()


async def test_an_idle_store_notices_by_itself_and_says_so_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = EmbeddedStore.open(path)
    session = await store.connect()
    await session.multi([Create("/kept")])
    heard = await _states(session)
    _unlink(path)
    assert (await asyncio.wait_for(heard.get(), 10)) is SessionState.LAPSED
    rescue = await _rescued(path)
    await store.close()
    (told,) = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert "klamm store repair" in told.getMessage()
    assert vars(told)["rescue"] == str(rescue)


async def _backed_up(path: Path, *names: str) -> backups.Backup:
    """The newest back-up, once it holds these nodes."""
    async with asyncio.timeout(10):
        while True:
            for found in backups.find(backups.directory_of(path))[-1:]:
                if set(names) <= set(read_copy(found.path).entries):
                    return found
            await asyncio.sleep(0.01)


async def test_back_ups_are_taken_at_the_start_and_when_changed_and_rotate(path: Path) -> None:
    for names in (["/a"], ["/a", "/b"], ["/a", "/b", "/c"]):
        store = EmbeddedStore.open(path, policy=Policy(keep=2, interval_s=3600))
        session = await store.connect()
        await _backed_up(path, *names[:-1]) if names[1:] else None
        await session.multi([Create(names[-1])])
        await store.close()
    store = EmbeddedStore.open(path, policy=Policy(keep=2, interval_s=0))
    session = await store.connect()
    newest = await _backed_up(path, "/a", "/b", "/c")
    await session.multi([Create("/d")])
    newest = await _backed_up(path, "/d")
    await store.close()
    found = backups.find(newest.path.parent)
    assert [newest in found, len(found)] == [True, 2]
    assert (_mode(newest.path), _mode(newest.path.parent)) == (0o600, 0o700)
    assert [name for name in os.listdir(newest.path.parent) if name.startswith(".")] == []


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def test_an_unchanged_store_gets_no_second_back_up(path: Path) -> None:
    store = EmbeddedStore.open(path)
    session = await store.connect()
    await session.multi([Create("/n")])
    await store.close()
    for _ in range(3):
        again = EmbeddedStore.open(path, policy=Policy(keep=5, interval_s=0))
        await again.connect()
        await asyncio.wrap_future(again._worker.submit(lambda: None))
        await again.close()
    assert len(backups.find(backups.directory_of(path))) <= 1
