"""Data goes only when its name is typed, nobody uses it, and it is a cluster's."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.cli.__main__ import main
from klamm.datadir import DataDirectory


@pytest.fixture
def data(tmp_path: Path) -> Path:
    place = tmp_path / "cluster"
    (place / "broker-0" / "orders-0").mkdir(parents=True)
    (place / "broker-0" / "orders-0" / "00000000000000000000.log").write_bytes(b"x" * 10)
    (place / "store.db").write_bytes(b"y")
    return place


def test_what_is_there_is_shown(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "show", "--data", str(data)]) == 0
    assert "1 broker, 1 log of partitions, 11 bytes" in capsys.readouterr().out


def test_a_reset_needs_the_name(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "reset", "--data", str(data)]) == 2
    assert "--confirm cluster" in capsys.readouterr().err
    assert main(["data", "reset", "--data", str(data), "--confirm", "clutser"]) == 2
    assert (data / "store.db").exists()
    assert main(["data", "reset", "--data", str(data), "--confirm", "cluster"]) == 0
    assert list(data.iterdir()) == []


def test_a_directory_in_use_stays(data: Path) -> None:
    with DataDirectory.claim(data):
        assert main(["data", "reset", "--data", str(data), "--confirm", "cluster"]) == 2
    assert (data / "store.db").exists()


def test_only_a_clusters_directory_goes(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    assert main(["data", "reset", "--data", str(tmp_path), "--confirm", tmp_path.name]) == 2
    assert main(["data", "reset", "--data", str(tmp_path / "no"), "--confirm", "no"]) == 1
    assert (tmp_path / "thesis.tex").exists()


def test_a_link_is_removed_and_not_what_it_leads_to(data: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("x")
    (data / "broker-1").symlink_to(elsewhere)
    assert main(["data", "reset", "--data", str(data), "--confirm", "cluster"]) == 0
    assert (elsewhere / "kept").exists()
