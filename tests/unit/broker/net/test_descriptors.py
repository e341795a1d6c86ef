"""How many connections a process can afford."""

from __future__ import annotations

import pytest

from klamm.broker.net.descriptors import Descriptors
from klamm.log.disk.files import fair_limit


@pytest.mark.parametrize("limit", [256, 1024, 4096, 65536, 1 << 20])
@pytest.mark.parametrize("brokers", [1, 3])
def test_files_and_brokers_keep_their_share(
    limit: int, brokers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (limit, limit))
    share = Descriptors()
    for _ in range(brokers):
        share.enter()
    kept = limit - share.clients_max
    assert kept >= brokers * (fair_limit() + share.guests_max) + 8 * brokers * brokers
    assert share.clients_max >= limit // 16


def test_clients_are_counted_over_all_brokers() -> None:
    share = Descriptors(lambda: 200)
    share.enter()
    most = share.clients_max
    assert [share.take() for _ in range(most + 2)] == [True] * most + [False] * 2
    share.give()
    assert share.take()
    assert share.clients == most


def test_many_brokers_on_few_files_still_serve_somebody() -> None:
    share = Descriptors(lambda: 64)
    for _ in range(20):
        share.enter()
    assert share.clients_max >= 8
    assert share.guests_max >= 4
