"""What a broker that listens everywhere hands out."""

from __future__ import annotations

import ipaddress

import pytest

from klamm.broker.net import addresses
from klamm.model.errors import UsageError


def test_the_own_address_is_one_that_others_can_use() -> None:
    found = addresses.own_address()
    if found is None:
        pytest.skip("this machine reaches nobody")
    assert not ipaddress.ip_address(found).is_loopback


def test_kafkas_way_is_the_name_and_ours_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "own_name", lambda: "k1.example")
    monkeypatch.setattr(addresses, "own_address", lambda: "10.0.0.7")
    assert addresses.reachable("--advertise HOST", by_name=True) == "k1.example"
    assert addresses.reachable("--advertise HOST", by_name=False) == "10.0.0.7"
    monkeypatch.setattr(addresses, "own_name", lambda: None)
    assert addresses.reachable("--advertise HOST", by_name=True) == "10.0.0.7"


def test_without_an_address_it_asks_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "own_name", lambda: None)
    monkeypatch.setattr(addresses, "own_address", lambda: None)
    with pytest.raises(UsageError, match="Name one: --advertise HOST"):
        addresses.reachable("--advertise HOST", by_name=False)
