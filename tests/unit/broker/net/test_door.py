"""Who is taken for a broker without a proof, and what an operator hears of it."""

from __future__ import annotations

import pytest

from klamm.broker.net.door import Door, exposure
from klamm.model.settings import BROKER_SETTINGS, BrokerSettings, Dynamic, broker_fault

NAME = "klamm.internal.requests.from"


def door(text: str) -> Door:
    return Door(BrokerSettings.parse({NAME: text}))


def test_by_default_only_a_proof_counts() -> None:
    closed = Door(BrokerSettings.parse({}))
    assert not closed.admits("PLAINTEXT", "127.0.0.1")
    assert closed.warning() is None


def test_listeners_addresses_and_networks_are_taken_at_their_word() -> None:
    opened = door("proof,listener:INTERNAL,10.1.2.3,192.168.0.0/16,fd00::/8")
    assert opened.admits("INTERNAL", "8.8.8.8")
    assert opened.admits("PLAINTEXT", "10.1.2.3")
    assert opened.admits("PLAINTEXT", "::ffff:10.1.2.3")
    assert opened.admits("PLAINTEXT", "192.168.7.7")
    assert opened.admits("PLAINTEXT", "fd00::1%eth0")
    for host in ("10.1.2.4", "?", "", "localhost"):
        assert not opened.admits("PLAINTEXT", host), host


def test_an_operator_hears_who_that_is() -> None:
    said = door("listener:PLAINTEXT,10.0.0.0/24").warning()
    assert said is not None
    assert "everybody on listener PLAINTEXT and everybody at 10.0.0.0/24" in said


@pytest.mark.parametrize("text", ["", "anybody", "10.0.0.0/99", "listener:", "proof,host.name"])
def test_what_names_nobody_is_refused(text: str) -> None:
    assert broker_fault({NAME: text}) is not None


def test_no_client_can_open_the_door_of_a_running_broker() -> None:
    assert BROKER_SETTINGS[NAME].dynamic is Dynamic.READ_ONLY


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"])
def test_loopback_is_nothing_to_warn_of(host: str) -> None:
    assert exposure(host) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.0.0.1", "kafka.example"])
def test_any_other_address_is(host: str) -> None:
    said = exposure(host)
    assert said is not None
    assert "without encryption" in said
    assert "\n" not in said
