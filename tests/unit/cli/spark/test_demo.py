"""What a tour that is broken off leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.cli.spark.demo import gone_unless_whole


@pytest.mark.parametrize("was_there", [False, True])
def test_a_broken_off_tour_leaves_what_was_there(tmp_path: Path, was_there: bool) -> None:
    place = tmp_path / "klamm-demo"
    if was_there:
        place.mkdir()
        (place / "mine").touch()

    def break_off() -> None:
        (place / "archive").mkdir(parents=True)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), gone_unless_whole(place):
        break_off()
    assert place.exists() is was_there
    assert (place / "mine").exists() is was_there


def test_a_whole_tour_leaves_its_results(tmp_path: Path) -> None:
    with gone_unless_whole(tmp_path / "x"):
        (tmp_path / "x").mkdir()
    assert (tmp_path / "x").exists()
