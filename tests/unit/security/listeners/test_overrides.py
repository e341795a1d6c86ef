"""`listener.name.<l>.*`: the nearest level counts, in lower case only."""

from __future__ import annotations

from klamm.security.listeners.endpoints import SecurityProtocol
from klamm.security.listeners.overrides import ListenerSettings, misspelt, setting_of

TEXTS = {
    "connections.max.reauth.ms": "1",
    "listener.name.a.connections.max.reauth.ms": "2",
    "listener.name.a.plain.connections.max.reauth.ms": "3",
    "listener.name.A.ssl.protocol": "upper",
    "listener.name.b.plain.sasl.jaas.config": "b's",
    "listener.name.b.sasl.jaas.config": "nobody's",
    "sasl.jaas.config": "nobody's",
    "ssl.client.auth": "required",
    "listener.name.b.c.ssl.client.auth": "requested",
}


def seen(listener: str, protocol: SecurityProtocol = SecurityProtocol.SASL_SSL) -> ListenerSettings:
    return ListenerSettings(listener, protocol, TEXTS)


def test_nearest_level_counts() -> None:
    assert seen("A").get("connections.max.reauth.ms", "PLAIN") == "3"
    assert seen("A").get("connections.max.reauth.ms", "SCRAM-SHA-256") == "2"
    assert seen("A").get("connections.max.reauth.ms") == "2"
    assert seen("B").get("connections.max.reauth.ms", "PLAIN") == "1"
    assert seen("B").get("ssl.protocol") is None


def test_prefix_in_capitals_has_no_effect_and_is_noticed() -> None:
    assert seen("A").get("ssl.protocol") is None
    assert misspelt(TEXTS, ["A", "B"]) == ["listener.name.A.ssl.protocol"]
    odd = "listener.name.a.SCRAM-SHA-256.sasl.jaas.config"
    assert misspelt([odd, "listener.name.a.Custom.thing"], ["A"]) == [odd]


def test_jaas_is_for_a_mechanism_of_a_listener() -> None:
    assert seen("B").get("sasl.jaas.config", "PLAIN") == "b's"
    assert seen("B").get("sasl.jaas.config", "SCRAM-SHA-512") is None
    assert seen("B").get("sasl.jaas.config") is None


def test_certificates_for_ssl_listeners_do_not_lock_sasl_ssl_ones() -> None:
    assert seen("A", SecurityProtocol.SSL).get("ssl.client.auth") == "required"
    assert seen("A").get("ssl.client.auth") is None
    assert seen("B.C").get("ssl.client.auth") == "requested"


def test_setting_behind_an_override() -> None:
    names = ["A", "B.C"]
    assert setting_of("listener.name.a.plain.sasl.jaas.config", names) == "sasl.jaas.config"
    assert setting_of("listener.name.b.c.ssl.protocol", names) == "ssl.protocol"
    assert setting_of("ssl.protocol", names) == "ssl.protocol"
    assert setting_of("listener.name.zoo.ssl.protocol", names) == "listener.name.zoo.ssl.protocol"
