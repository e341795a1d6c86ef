# ruff: noqa: E501
"""Listeners: what is read, what is refused at the start with which words."""

from __future__ import annotations

import pytest

from klamm.model.errors import Refused
from klamm.security.listeners.config import ListenerConfig, listener_config
from klamm.security.listeners.endpoints import Listener, SecurityProtocol

MAP = "listener.security.protocol.map"


def read(**texts: str) -> ListenerConfig:
    config = listener_config({name.replace("_", "."): text for name, text in texts.items()})
    assert isinstance(config, ListenerConfig), config
    return config


def refusal(texts: dict[str, str]) -> str:
    told = listener_config(texts)
    assert isinstance(told, Refused), told
    return told.why


def test_default_is_one_plain_door() -> None:
    config = read()
    assert config.listeners == (Listener("PLAINTEXT", "", 9092, SecurityProtocol.PLAINTEXT),)
    assert config.advertised == config.listeners
    assert config.inter_broker == config.controller == "PLAINTEXT"


def test_items_are_read_as_kafka_reads_them() -> None:
    config = read(
        listeners=" int://h-1.x_y:1 ,, clients://[::1]:2,odd://name://10.0.0.1:0",
        listener_security_protocol_map="Int:plaintext,CLIENTS : SASL_SSL,odd://name:SSL,INT:SSL",
        inter_broker_listener_name="int",
    )
    assert config.listeners == (
        Listener("INT", "h-1.x_y", 1, SecurityProtocol.SSL),
        Listener("CLIENTS", "::1", 2, SecurityProtocol.SASL_SSL),
        Listener("ODD://NAME", "10.0.0.1", 0, SecurityProtocol.SSL),
    )
    assert str(config.listeners[1]) == "CLIENTS://[::1]:2"
    assert config.inter_broker_protocol is SecurityProtocol.SSL


def test_roles_of_listeners() -> None:
    config = read(
        listeners="A://:1,B://:2,C://:3",
        advertised_listeners="A://a:1,B://b:2",
        listener_security_protocol_map="A:SSL,B:SASL_SSL,C:PLAINTEXT",
        inter_broker_listener_name="A",
        control_plane_listener_name="b",
        early_start_listeners="a",
    )
    assert (config.inter_broker, config.control_plane, config.controller) == ("A", "B", "B")
    assert config.early_start == {"A"}


def test_protocol_names_the_listener_between_brokers() -> None:
    config = read(listeners="SSL://:1,SASL_SSL://:2", security_inter_broker_protocol="SASL_SSL")
    assert config.inter_broker == "SASL_SSL"


def test_registration_has_real_ports_and_a_host() -> None:
    config = read(listeners="PLAINTEXT://:0")
    assert config.advertised_at({"PLAINTEXT": 5}, "me") == (
        Listener("PLAINTEXT", "me", 5, SecurityProtocol.PLAINTEXT),
    )


def test_ports_can_be_shared_by_one_ipv4_and_one_ipv6_address() -> None:
    two = "PLAINTEXT:PLAINTEXT,B:PLAINTEXT"
    read(listeners="PLAINTEXT://127.0.0.1:9,B://[::1]:9", listener_security_protocol_map=two)
    read(listeners="PLAINTEXT://:0,B://:0", listener_security_protocol_map=two)


THREE = "PLAINTEXT:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT"
FAULTS = [
    ({"listeners": "PLAINTEXT//x"}, "Error creating broker listeners from 'PLAINTEXT//x': Unable to parse PLAINTEXT//x to a broker endpoint"),
    ({"listeners": "PLAINTEXT://h:x"}, "Unable to parse PLAINTEXT://h:x to a broker endpoint"),
    ({"listeners": "PLAINTEXT://h h:1"}, "Unable to parse"),
    ({"listeners": "PLAINTEXT://[::1:1"}, "Unable to parse"),
    ({"listeners": "PLAINTEXT://h:-1"}, "a port is between 0 and 65535"),
    ({"listeners": "PLAINTEXT://h:65536"}, "a port is between 0 and 65535"),
    ({"listeners": "PLAINTEXT://h:" + "9" * 5000}, "a port is between 0 and 65535"),
    ({"listeners": "MINE://:1"}, "No security protocol defined for listener MINE"),
    ({"listeners": "PLAINTEXT://:1", MAP: "MINE:SSL"}, "No security protocol defined for listener PLAINTEXT"),
    ({"listeners": " ://:1"}, "The provided listener name is null or empty string"),
    ({MAP: "MINE"}, f"Error parsing configuration property '{MAP}': "),
    ({MAP: ":SSL"}, f"Error parsing configuration property '{MAP}': "),
    ({MAP: "MINE:TLS"}, f"Invalid security protocol `TLS` defined in {MAP}"),
    ({"listeners": "PLAINTEXT://:1,plaintext://:2"}, "Each listener must have a different name, listeners: PLAINTEXT://:1,plaintext://:2"),
    ({"advertised.listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"}, "Each listener must have a different name"),
    ({"listeners": "PLAINTEXT://a:1,SSL://b:1"}, "Each listener must have a different port, listeners: PLAINTEXT://a:1,SSL://b:1"),
    ({"listeners": "PLAINTEXT://:1,SSL://:1"}, "Each listener must have a different port, "),
    ({"listeners": "PLAINTEXT://127.0.0.1:1,SSL://127.0.0.2:1"}, "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6, listeners: PLAINTEXT://127.0.0.1:1,SSL://127.0.0.2:1, port: 1"),
    ({"listeners": "PLAINTEXT://127.0.0.1:1,B://[::1]:1,C://:1", MAP: THREE}, "If you have two listeners on the same port"),
    ({"listeners": "PLAINTEXT://127.0.0.1:1,B://[::1]:1,C://127.0.0.2:1", MAP: THREE}, "Each listener must have a different port unless exactly one listener has an IPv4 address and the other IPv6 address, listeners: "),
    ({"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "SSL"}, "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set."),
    ({"inter.broker.listener.name": "X"}, "Listener with name X defined in inter.broker.listener.name not found in listener.security.protocol.map."),
    ({"security.inter.broker.protocol": "TLS"}, "Invalid value TLS for configuration security.inter.broker.protocol"),
    ({"control.plane.listener.name": "X"}, "Listener with X defined in control.plane.listener.name not found in listener.security.protocol.map."),
    ({"listeners": ""}, "There must be at least one broker advertised listener."),
    ({"listeners": "SSL://:1"}, "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid options based on currently configured listeners are SSL"),
    ({"advertised.listeners": "PLAINTEXT://a:1,SSL://a:2"}, "advertised.listeners listener names must be equal to or a subset of the ones defined in listeners. Found PLAINTEXT,SSL. The valid options based on the current configuration are PLAINTEXT"),
    ({"listeners": "PLAINTEXT://0.0.0.0:1"}, "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0."),
    ({"control.plane.listener.name": "SSL"}, "control.plane.listener.name must be a listener name defined in advertised.listeners."),
    ({"control.plane.listener.name": "PLAINTEXT"}, "control.plane.listener.name, when defined, should have a different value from the inter broker listener name. Currently they both have the value PLAINTEXT"),
    ({"controller.listener.names": "A,B"}, "controller.listener.names must be empty when not running in KRaft mode: [A, B]"),
    ({"early.start.listeners": "X"}, "early.start.listeners contains listener X, but this is not contained in listeners or controller.listener.names"),
]  # fmt: skip


@pytest.mark.parametrize(("texts", "words"), FAULTS)
def test_start_is_refused(texts: dict[str, str], words: str) -> None:
    assert words in refusal(texts)
