"""What may change while a broker runs: the words of every refusal."""

from __future__ import annotations

import pytest

from klamm.model.errors import Refused
from klamm.security.listeners.config import ListenerConfig, listener_config
from klamm.security.listeners.reconfiguration import (
    CertificateFacts,
    ListenersChange,
    certificate_fault,
    listeners_change,
    names_fault,
)

PREFIX = "listener.name.clients."


def fault(*names: str, for_cluster: bool = False, has_encoder: bool = True) -> str | None:
    told = names_fault(names, for_cluster=for_cluster, has_encoder=has_encoder)
    assert told is None or told.code == 40
    return told.why if told else None


@pytest.mark.parametrize(
    "name",
    [
        "inter.broker.listener.name", "security.inter.broker.protocol",
        "control.plane.listener.name", "authorizer.class.name", "super.users",
        "allow.everyone.if.no.acl.found", "password.encoder.secret", "delegation.token.secret.key",
        "zookeeper.set.acl", "ssl.principal.mapping.rules", "ssl.allow.dn.changes",
        "ssl.allow.san.changes", "sasl.server.max.receive.size", "connections.max.reauth.ms",
    ],
)  # fmt: skip
def test_some_settings_never_change(name: str) -> None:
    assert fault(name) == f"Cannot update these configs dynamically: {{{name}}}"


def test_certificates_change_under_the_prefix_of_a_listener() -> None:
    assert fault("ssl.keystore.location") == (
        "These security configs can be dynamically updated only per-listener using the listener "
        "prefix: {ssl.keystore.location}"
    )
    assert fault(PREFIX + "ssl.keystore.location") is None


def test_what_belongs_to_a_broker_is_not_for_the_cluster() -> None:
    assert fault("listeners", for_cluster=True) == (
        "Cannot update these configs at default cluster level, broker id must be specified: "
        "{listeners}"
    )
    assert fault(PREFIX + "ssl.client.auth", for_cluster=True) is not None
    assert fault("max.connections", PREFIX + "max.connections", for_cluster=True) is None
    assert fault(PREFIX + "ssl.key.password", for_cluster=True) == (
        "Password config can be defined only at broker level"
    )


def test_secret_needs_an_encoder() -> None:
    name = PREFIX + "plain.sasl.jaas.config"
    assert fault(name, has_encoder=False) == "Password encoder secret not configured"
    assert fault(name) is None


OLD = {
    "listeners": "PLAINTEXT://:1,CLIENTS://:2",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SSL,MORE:SASL_SSL",
    PREFIX + "ssl.keystore.location": "k.pem",
}


def change(**texts: str | None) -> ListenersChange | str:
    old = listener_config(OLD)
    assert isinstance(old, ListenerConfig)
    renamed = {name.replace("_", "."): text for name, text in texts.items()}
    after = {name: text for name, text in (OLD | renamed).items() if text is not None}
    told = listeners_change(old, OLD, after)
    if isinstance(told, Refused):
        assert told.code == 40
        assert told.why.startswith("Invalid value ")
        return told.why
    return told


def test_listener_can_be_added_and_removed() -> None:
    more = change(listeners="PLAINTEXT://:1,CLIENTS://:2,MORE://:3")
    assert isinstance(more, ListenersChange)
    assert (more.added, more.removed, more.reloaded) == (("MORE",), (), ())
    less = change(listeners="PLAINTEXT://:1", advertised_listeners="PLAINTEXT://:1")
    assert isinstance(less, ListenersChange)
    assert less.removed == ("CLIENTS",)


def test_certificate_of_an_open_listener_can_change() -> None:
    told = change(**{PREFIX + "ssl.keystore.location": "new.pem"})
    assert isinstance(told, ListenersChange)
    assert told.reloaded == ("CLIENTS",)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (
            {PREFIX + "ssl.client.auth": "none"},
            "Configs cannot be updated dynamically for existing listener CLIENTS, restart broker "
            "or create a new listener for update",
        ),
        (
            {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:PLAINTEXT"},
            "Security protocol cannot be updated for existing listener CLIENTS",
        ),
        (
            {"listeners": "CLIENTS://:2"},
            "Advertised listener must be specified for inter-broker listener PLAINTEXT",
        ),
        (
            {"advertised.listeners": "PLAINTEXT://a:1,MORE://a:2"},
            "Advertised listeners 'MORE,PLAINTEXT' must be a subset of listeners "
            "'CLIENTS,PLAINTEXT'",
        ),
        (
            {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"},
            "Listeners 'CLIENTS,PLAINTEXT' must be subset of listener map 'PLAINTEXT'",
        ),
        ({"listeners": "PLAINTEXT://:1,CLIENTS://:1"}, "Each listener must have a different port"),
        (
            {PREFIX + "ssl.keystore.location": None},
            "Cannot remove the SSL keystore from an existing listener for which a keystore was "
            "configured.",
        ),
        (
            {PREFIX + "ssl.truststore.location": "t.pem"},
            "Cannot add SSL truststore to an existing listener for which no truststore was "
            "configured.",
        ),
        (
            {"listener.name.plaintext.ssl.keystore.location": "k.pem"},
            "Cannot add SSL keystore to an existing listener for which no keystore was configured.",
        ),
    ],
)
def test_open_listener_keeps_what_it_was_opened_with(
    texts: dict[str, str | None], words: str
) -> None:
    told = change(**texts)
    assert isinstance(told, str)
    assert words in told


def test_new_certificate_is_the_same_somebody() -> None:
    def facts(subject: str, *names: str) -> CertificateFacts:
        return CertificateFacts((subject,), (frozenset(names),))

    def told(new: CertificateFacts, *, subject: bool = False, names: bool = False) -> str | None:
        fault = certificate_fault(
            facts("CN=k1,O=x", "k1"), new, allow_subject=subject, allow_names=names
        )
        return fault.why if fault else None

    assert told(facts("cn=K1,o=x", "k1", "k2")) is None
    assert "DistinguishedName does not match" in (told(facts("CN=k2,O=x", "k1")) or "")
    assert told(facts("CN=k2,O=x", "k1"), subject=True) is None
    assert "SubjectAltNames do not match: k1" in (told(facts("CN=k1,O=x", "k2")) or "")
    assert told(facts("CN=k1,O=x"), names=True) is None
    two = CertificateFacts(("CN=k1,O=x", "CN=b"), (frozenset(), frozenset()))
    assert "entries do not match" in (told(two, subject=True, names=True) or "")
