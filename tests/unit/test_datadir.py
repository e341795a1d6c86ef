"""One process, one cluster, one directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from klamm.datadir import ADDRESS_NAME, LOCK_NAME, DataDirectory, default_data
from klamm.model.errors import UsageError


def test_a_directory_is_claimed_once(tmp_path: Path) -> None:
    with DataDirectory.claim(tmp_path / "a" / "b") as first:
        assert first.path == tmp_path / "a" / "b"
        with pytest.raises(UsageError, match=f"is in use by process {os.getpid()}"):
            DataDirectory.claim(tmp_path / "a" / "b")
    DataDirectory.claim(tmp_path / "a" / "b").release()


def test_what_is_in_it_survives_its_release(tmp_path: Path) -> None:
    with DataDirectory.claim(tmp_path) as directory:
        directory.store.write_text("kept")
    assert directory.store.read_text() == "kept"
    assert (tmp_path / LOCK_NAME).exists()


def test_a_temporary_directory_goes_with_its_release() -> None:
    with DataDirectory.claim(None) as directory:
        directory.broker(0).mkdir()
        assert directory.path.is_dir()
    assert not directory.path.exists()
    directory.release()


def test_a_temporary_directory_goes_with_all_that_lies_deep_in_it(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "kept").mkdir(parents=True)
    with DataDirectory.claim(None) as directory:
        for log in ("t-0", "disk-a/t-1", "disk-b/t-2/more"):
            place = directory.broker(0) / log
            place.mkdir(parents=True)
            (place / "0.log").write_bytes(b"x")
        (directory.broker(0) / "link").symlink_to(elsewhere)
    assert not directory.path.exists()
    assert (elsewhere / "kept").exists(), "a link is removed, not what it leads to"


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError, match=r"cannot write to .*file"):
        DataDirectory.claim(tmp_path / "file" / "data")


def test_the_default_is_the_users_state_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/var/state")
    assert default_data() == Path("/var/state/klamm")
    monkeypatch.setenv("HOME", "/home/u")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert default_data() == Path("/home/u/.local/state/klamm")
    monkeypatch.delenv("XDG_STATE_HOME")
    assert default_data() == Path("/home/u/.local/state/klamm")


def test_where_a_killed_cluster_served_its_store_is_forgotten(tmp_path: Path) -> None:
    (tmp_path / ADDRESS_NAME).write_text("127.0.0.1:1\n")
    with DataDirectory.claim(tmp_path) as directory:
        assert not (tmp_path / ADDRESS_NAME).exists()
        directory.tell_address("127.0.0.1:2")
        assert (tmp_path / ADDRESS_NAME).read_text() == "127.0.0.1:2\n"
        assert (tmp_path / ADDRESS_NAME).stat().st_mode & 0o077 == 0
    assert not (tmp_path / ADDRESS_NAME).exists()
