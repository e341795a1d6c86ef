"""Everything that can go wrong with processes, links, disks and clocks, under load.

A seed is drawn and printed; KLAMM_CHAOS_SEED repeats it, as far as real processes repeat.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.checks import gaps, unexplained
from chaos.faults import Happened
from chaos.run import Report, chaos
from chaos.world import BROKERS, EMBEDDED, ZOOKEEPER, World
from history import check, read_replicas
from interop.killing import Load
from unit.store.zookeeper_server import why_not

IS_WHOLE = bool(os.environ.get("KLAMM_CHAOS"))
SECONDS = float(os.environ.get("KLAMM_CHAOS_SECONDS", "1800")) if IS_WHOLE else 18.0
SEED = int(os.environ.get("KLAMM_CHAOS_SEED") or random.randrange(1_000_000))
STORES = [EMBEDDED, ZOOKEEPER] if IS_WHOLE else [EMBEDDED]
Tell = Callable[[Report], Report]


@pytest.mark.timeout(600 + 2 * SECONDS)
@pytest.mark.parametrize("store", STORES)
def test_promises_are_kept(store: str, tmp_path: Path, told: Tell) -> None:
    if store == ZOOKEEPER and (reason := why_not()):
        pytest.skip(reason)
    report = told(chaos(store, SECONDS, SEED, tmp_path))
    assert report.wrong == [], f"seed {SEED}"
    assert report.acknowledged > 100
    assert report.committed > 0


def test_only_what_stops_service_explains_that_there_is_none() -> None:
    times = [0.0, 30.0, 30.1]
    killed = Happened("kill", "broker 1", -10.0, 14.0)
    slow = Happened("slow disk", "broker 1", 2.0, 28.0)
    assert unexplained(gaps("all", times, [killed, slow])) == [], "14 s, and time to recover"
    (told,) = unexplained(gaps("all", times, [slow]))
    assert "30.0 s" in told
    earlier = Happened("kill", "broker 1", -30.0, -1.0)
    assert len(unexplained(gaps("all", times, [earlier]))) == 1, "it was over before"


@pytest.mark.timeout(180)
@pytest.mark.parametrize("planted", ["early", "forget", *([""] if IS_WHOLE else [])])
def test_a_planted_fault_is_found(planted: str, tmp_path: Path) -> None:
    """An acknowledgement too early, and a leader that forgets; without either nothing is wrong."""
    world = World(EMBEDDED, tmp_path)
    try:
        for broker_id in BROKERS:
            world.chaos_broker(broker_id).plant = planted
        world.start(*BROKERS)
        controller = world.controller()
        assert controller is not None
        leader, *followers = [*(b for b in BROKERS if b != controller), controller]
        world.create("load", [[leader, *followers]])
        # An idempotent one would notice a loss itself, and go no further.
        load = Load(world.bootstrap, "load", 1, "p", idempotent=False)
        load.start()
        try:
            load.wait_for_more(1000)
            # What is acknowledged from now on, the others have not got.
            for follower in followers:
                world.brokers[follower].signal(signal.SIGSTOP)
            if planted == "early":
                load.wait_for_one_after(load.sent + 500)
            world.brokers[leader].kill()
            for follower in followers:
                world.brokers[follower].signal(signal.SIGCONT)
            world.until(lambda: world.state("load", 0)["leader"] in followers, "a new leader")
            if not planted:
                load.wait_for_more(20)
        finally:
            load.halt()
        world.start(leader)
        world.settle("load", 1)
        faults = check(load.acked, read_replicas(tmp_path, "load", range(1), BROKERS))
        if planted:
            assert any("lost" in fault for fault in faults), faults
        else:
            # Without idempotence a record may be there twice.
            assert [fault for fault in faults if "lost" in fault] == []
    finally:
        world.close()
