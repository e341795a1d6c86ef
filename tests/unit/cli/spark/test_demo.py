"""What a tour that is broken off leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.cli.spark.demo import farewell, gone_unless_whole, is_grown


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


def test_it_ends_with_three_things_to_try() -> None:
    first, _, second, _, third, _ = farewell(".venv/bin/klamm", Path("/x y"))
    assert first == ".venv/bin/klamm up"
    assert second == ".venv/bin/klamm archive verify '/x y/archive'"
    assert third == "open /x y/audit.html"


def test_a_growth_is_told_as_a_whole() -> None:
    partitions = [{"subject": f"orders-{n}", "after": "Online"} for n in (3, 4, 5)]
    replicas = [
        {"subject": f"orders-{n} on broker {b}", "after": "Online"}
        for n in (3, 4, 5)
        for b in "012"
    ]
    assert is_grown([*partitions, *replicas], 3)
    assert not is_grown([*partitions, *replicas[1:]], 3)
    assert not is_grown([*partitions[1:], *replicas], 3)
