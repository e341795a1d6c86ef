"""One set of listeners for several brokers."""

from __future__ import annotations

import pytest

from klamm.model.errors import Refused
from klamm.security.listeners.config import listener_config
from klamm.security.listeners.placing import at_ports, crowding, named, shifted

TWO = {
    "listeners": "INTERNAL://:9000,CLIENTS://[::1]:9100",
    "advertised.listeners": "INTERNAL://a:9000,CLIENTS://b:0",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,CLIENTS:PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
}


def test_a_port_p_is_broker_is_port_p_plus_i_and_0_stays() -> None:
    moved = shifted(TWO, 2)
    assert moved["listeners"] == "INTERNAL://:9002,CLIENTS://[::1]:9102"
    assert moved["advertised.listeners"] == "INTERNAL://a:9002,CLIENTS://b:0"
    assert shifted({"listeners": "nonsense"}, 1) == {"listeners": "nonsense"}


def test_who_names_no_listener_gets_one() -> None:
    made = listener_config(named({}, "0.0.0.0", 9092, "10.0.0.7"))
    assert not isinstance(made, Refused)
    assert [str(one) for one in made.listeners] == ["PLAINTEXT://0.0.0.0:9092"]
    assert [str(one) for one in made.advertised_at({"PLAINTEXT": 9092}, "")] == [
        "PLAINTEXT://10.0.0.7:9092"
    ]
    assert named(TWO, "h", 1, "x") == TWO
    given = {"advertised.listeners": "PLAINTEXT://proxy:19092"}
    assert named(given, "::1", 5, "x")["listeners"] == "PLAINTEXT://[::1]:5"
    assert named(given, "::1", 5, "x")["advertised.listeners"] == "PLAINTEXT://proxy:19092"


def test_a_broker_that_comes_back_listens_where_it_did() -> None:
    texts = {"listeners": "A://:0,B://h:7"}
    assert at_ports(texts, {"A": 40_001, "B": 7}) == {"listeners": "A://:40001,B://h:7"}
    assert at_ports({}, {"PLAINTEXT": 3}) == {}


@pytest.mark.parametrize(
    ("listeners", "brokers", "why"),
    [
        ("PLAINTEXT://:9092,SSL://:9093", 3, "port 9093 would be that of PLAINTEXT of broker 1"),
        ("PLAINTEXT://:9092,SSL://:9095", 3, None),
        ("PLAINTEXT://:9092,SSL://:9093", 1, None),
        ("PLAINTEXT://:0,SSL://:0", 3, None),
        ("PLAINTEXT://:65535", 2, "port 65535 of PLAINTEXT leaves no room for 2 brokers"),
        ("PLAINTEXT://127.0.0.1:9092,SSL://[::1]:9092", 2, None),
    ],
)
def test_brokers_do_not_take_each_others_ports(
    listeners: str, brokers: int, why: str | None
) -> None:
    told = crowding({"listeners": listeners}, brokers)
    assert told is None if why is None else told is not None and why in told
