"""The page of the comparison says what the stored result says."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

BENCH = Path(__file__).parents[3] / "bench"
sys.path.append(str(BENCH))  # last: its files have plain names

from peers import page  # noqa: E402
from peers.cells import CELLS  # noqa: E402
from peers.rounds import Pace  # noqa: E402

MACHINE = {"cpus": 2, "data_on": "ext4"}


def reading(system: str, cell: str, turn: int = 1, **figures: float) -> dict[str, Any]:
    named = {name.replace("__", "."): value for name, value in figures.items()}
    return {"cell": cell, "system": system, "round": turn, "load": 1.5, "figures": named}


def result(*readings: dict[str, Any]) -> dict[str, Any]:
    systems = {"klamm": "klamm", "kafka-3.9": "Kafka 3", "kafka-4": "Kafka 4", "kfake": "kfake"}
    return {
        "at": "2026-01-02 03:04",
        "machine": MACHINE,
        "versions": {"3.9": "3.9.1", "4": "4.3.1", "klamm": "0", "rdkafka": "2"},
        "rounds": 3,
        "seconds": 3.0,
        "warm_s": 60.0,
        "note": "",
        "systems": [
            {"name": name, "title": title, "brokers": 3, "heap": "1 GB"}
            for name, title in systems.items()
        ],
        "readings": list(readings),
    }


def test_the_page_is_of_the_newest_stored_result() -> None:
    stored = page.newest(BENCH / "results")
    for name, text in page.rendered(json.loads(stored.read_text()), stored.name).items():
        found = (page.DOCS / name).read_text()
        assert found == text, f"{name} is stale; run: make bench-peers ARGS=--render"


def test_a_row_has_medians_a_spread_and_ratios_that_say_who_is_better() -> None:
    readings = [
        reading("klamm", "start", turn, first_record_s=value)
        for turn, value in enumerate((0.5, 0.7, 0.6), start=1)
    ]
    readings += [
        reading("kafka-3.9", "start", first_record_s=6.0),
        reading("kafka-4", "start", first_record_s=0.3),
        reading("klamm", "rf3-1mb", produce__mb_s=300.0),
        reading("kafka-4", "rf3-1mb", produce__mb_s=150.0),
    ]
    text = page.rendered(result(*readings), "peers-1.json")[page.PAGE]
    row = "| start to the first record | 0.60 s (0.50-0.70) | 6.00 s | 0.30 s | 10 / 0.50 |"
    assert row in text
    row = "| produce 1 KB, 1 MB batches, RF 3, acks=all | 300 MB/s | - | 150 MB/s | - / 2.0 |"
    assert row in text, "of throughput more is better, and what was not measured is a dash"
    behind = text.split("## Where klamm is behind")[1].split("##")[0]
    assert "start to the first record** (0.50)" in behind
    assert "RF 3" not in behind


def test_what_broke_is_told_and_what_is_missing_is_no_row() -> None:
    broken = reading("kafka-4", "java") | {"broke": "TimeoutError: it\n| took <long>"}
    del broken["figures"]
    text = page.rendered(result(reading("klamm", "list", wall_s=0.4), broken), "x")[page.PAGE]
    assert "- `java` broke once on Kafka 4: TimeoutError: it / took (long)" in text
    assert "latency" not in text.split("## How it was measured")[0]
    assert "## Smaller ones" not in text


def test_the_pictures_are_svg_with_a_bar_for_each_row() -> None:
    readings = [
        reading("klamm", "rf1-1mb", produce__mb_s=900.0, produce__cpu_s_per_gb=0.5),
        reading("kafka-4", "rf1-1mb", produce__mb_s=600.0, produce__cpu_s_per_gb=2.0),
        reading("klamm", "list", wall_s=0.4),
        reading("kafka-4", "list", wall_s=0.2),
    ]
    found = page.rendered(result(*readings), "x")
    for name, bars in ((page.RATIOS, 2), (page.COSTS, 2 + 2)):  # two of them are the legend's
        root = ElementTree.fromstring(found[name])
        drawn = [each for each in root if each.tag.endswith("rect")]
        assert len(drawn) == bars, name
        assert all(float(each.attrib["width"]) > 0 for each in drawn)
    ratios = ElementTree.fromstring(found[page.RATIOS])
    colours = {each.attrib["fill"] for each in ratios if each.tag.endswith("rect")}
    assert len(colours) == 2, "ahead and behind look different"


def test_a_machine_that_paces_the_loopback_is_named() -> None:
    paced = page.rendered(result() | {"congestion": "bbr"}, "x")[page.PAGE]
    assert "TCP congestion control is bbr" in paced
    for usual in ({}, {"congestion": "cubic"}):
        assert "congestion" not in page.rendered(result() | usual, "x")[page.PAGE]


def test_a_result_without_readings_is_a_page_too() -> None:
    assert "Nowhere in this run." in page.rendered(result(), "x")[page.PAGE]


def test_the_first_round_is_whole_and_later_ones_end_in_time() -> None:
    one, other = CELLS[0], CELLS[1]
    pace = Pace(3, once=frozenset({one.name}))
    assert [pace.skips(one, turn) for turn in (1, 2, 3)] == [False, True, True]
    assert not any(pace.skips(other, turn) for turn in (1, 2, 3))
    late = Pace(3, end=0.0)
    assert [late.skips(other, turn) for turn in (1, 2)] == [False, True]
