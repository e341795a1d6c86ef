"""Nobody with a socket may hurt the cluster: every attack by name, and fuzzed requests.

What runs by default is a smoke of a minute: the attacks at a smaller size, limits for a machine
that is busy with other things. With KLAMM_HOSTILE=1 (`make hostile`) they have their full size and
the limits are the goal: a healthy user's p99 under 250 ms, less than 100 MB more memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hostile import fuzz
from hostile.attacks import Outcome
from hostile.catalogue import CATALOGUE, SETTINGS, Entry
from hostile.conftest import Shared
from hostile.inputs import BLOCK
from hostile.target import target

IS_LONG = os.environ.get("KLAMM_HOSTILE") == "1"
P99_S = 0.25
SMOKE_INPUTS = 3000

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="reads /proc"),
    pytest.mark.timeout(900 if IS_LONG else 180),
]


def _judge(entry: Entry, outcome: Outcome) -> None:
    seen = outcome.seen
    told = (seen.summary(), outcome.facts)
    assert not outcome.broken, (outcome.broken, told)
    assert seen.alive, told
    if not entry.may_complain:
        assert seen.errors == [], seen.errors[:3]
    if not entry.may_stop:
        assert seen.answered, told
        assert seen.max_s < (10 if IS_LONG else entry.max_s), told
    assert seen.memory_mb < (entry.memory_goal_mb if IS_LONG else entry.memory_mb), told
    if IS_LONG and not entry.may_stop:
        assert seen.at(0.99) < P99_S, told


@pytest.mark.parametrize("name", CATALOGUE)
def test_attack(name: str, shared: Shared, tmp_path: Path) -> None:
    entry = CATALOGUE[name]
    sizes = entry.full if IS_LONG else entry.smoke or entry.full
    if not entry.alone:
        victim = shared.get()
        try:
            _judge(entry, entry.run(victim, **sizes))
        except BaseException:
            victim.is_dirty = True
            raise
        return
    with target(tmp_path / "cluster", **{"settings": SETTINGS, **entry.target}) as victim:
        _judge(entry, entry.run(victim, **sizes))


def test_inputs_that_were_found_once(shared: Shared) -> None:
    victim = shared.get()
    with victim.watched() as seen:
        fuzz.replay(victim)
    victim.is_dirty = victim.is_dirty or bool(seen.errors)
    assert seen.alive
    assert seen.errors == [], seen.errors[:3]
    assert seen.answered


def test_all_records_are_still_there(shared: Shared) -> None:
    """What the healthy user was promised through all of it."""
    victim = shared.get()
    victim.stop_user()
    victim.is_dirty = True
    assert victim.lost_records() == []
    assert victim.precious_is_whole()
    assert victim.foreign_files() == []


@pytest.mark.timeout(7200)
def test_fuzzed_requests(shared: Shared, record_property: Callable[[str, object], None]) -> None:
    """All APIs and versions, control and private ones too; a failure names the seed."""
    wanted = os.environ.get("KLAMM_HOSTILE_INPUTS") or (100_000 if IS_LONG else SMOKE_INPUTS)
    seed = int(os.environ.get("KLAMM_HOSTILE_SEED") or 20261118)
    report = fuzz.Report(seed)
    victim = shared.get()
    victim.new_errors()
    fuzz.attack(victim, report, -(-int(wanted) // BLOCK))
    victim.is_dirty = True  # its user has been stopped
    told = report.summary()
    record_property("fuzzed", told)
    assert not report.broken, told
    assert not report.faults, told
    assert report.inputs >= int(wanted), told
    assert (report.percentile(0.99) or 0) < (250 if IS_LONG else 2500), told
    assert report.memory_after_mb - report.memory_before_mb < 100, told
