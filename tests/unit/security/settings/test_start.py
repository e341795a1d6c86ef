# ruff: noqa: E501
"""No configuration yields a less protected cluster than it asked for: all of Kafka's settings."""

from __future__ import annotations

import pytest

from klamm.model.settings import BROKER_SETTINGS
from klamm.security.settings.start import ALL_FEATURES, check_start
from klamm.security.settings.table import (
    SECURITY_PREFIXES,
    SECURITY_SETTINGS,
    Effect,
    Feature,
)

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="b" password="s3cret" user_b="s3cret";'
SCRAM = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="b" password="s3cret";'
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
STORE = {"ssl.keystore.location": "k.pem", "ssl.keystore.type": "PEM"}
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
LOCKED = STORE | {
    "listeners": "SASL_SSL://:1",
    "security.inter.broker.protocol": "SASL_SSL",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    "listener.name.sasl_ssl.plain.sasl.jaas.config": PLAIN,
    "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": SCRAM,
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:b",
}
# A text that asks for something, where just any text would not do.
TEXTS = {
    "listeners": "SSL://:1",
    "advertised.listeners": "PLAINTEXT://h:1",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "security.inter.broker.protocol": "SSL",
    "early.start.listeners": "PLAINTEXT",
    "control.plane.listener.name": "SSL",
    "controller.listener.names": "C",
}


def refusals(texts: dict[str, str], features: frozenset[Feature] = ALL_FEATURES) -> str:
    return "\n".join(check_start(texts, features).refusals)


def test_locked_cluster_starts() -> None:
    told = check_start(LOCKED)
    assert told.refusals == ()
    assert told.warnings == ()
    assert told.listeners is not None
    assert check_start({}).refusals == ()


def test_table_knows_every_security_setting_that_kafka_has() -> None:
    others = {
        "super.users", "allow.everyone.if.no.acl.found", "principal.builder.class", "listeners",
        "advertised.listeners", "listener.security.protocol.map", "inter.broker.listener.name",
        "control.plane.listener.name", "controller.listener.names", "early.start.listeners",
        "connection.failed.authentication.delay.ms", "connections.max.reauth.ms",
        "zookeeper.clientCnxnSocket",
    }  # fmt: skip
    kafkas = {name for name in BROKER_SETTINGS if name.startswith(SECURITY_PREFIXES)} | others
    assert others <= set(BROKER_SETTINGS)
    assert kafkas - set(SECURITY_SETTINGS) == set()
    ours = set(SECURITY_SETTINGS) - kafkas
    assert all(name.startswith("authorizer.zookeeper.") for name in ours)
    assert len(SECURITY_SETTINGS) == 102


@pytest.mark.parametrize("name", SECURITY_SETTINGS)
def test_every_setting_is_in_force_told_or_refused(name: str) -> None:
    setting = SECURITY_SETTINGS[name]
    text = TEXTS.get(name, "surely.not.the.Default")
    told = check_start({name: text})
    match setting.effect:
        case Effect.REFUSED:
            assert any(name in why for why in told.refusals)
            assert name not in refusals({name: setting.default})
        case Effect.HARMLESS:
            assert setting.why
            assert setting.rule is not None or any(name in warning for warning in told.warnings)
        case Effect.IN_FORCE:
            # A shell without the part does not start with it.
            assert setting.feature is not None
            assert refusals({name: text}, ALL_FEATURES - {setting.feature})


@pytest.mark.parametrize("name", [n for n, s in SECURITY_SETTINGS.items() if s.rule])
def test_malformed_value_is_refused_by_name(name: str) -> None:
    assert name in refusals({name: "RULE:surely/wrong"})


def test_kafkas_default_asks_for_nothing() -> None:
    texts = {"ssl.client.auth": "none", "sasl.server.max.receive.size": "524288"}
    assert refusals(texts, frozenset()) == ""
    assert "TLS" in refusals({"ssl.client.auth": "required"}, frozenset())


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_nothing_built_in_means_no_locked_listener(protocol: str) -> None:
    texts = {"listeners": f"{protocol}://:1", "security.inter.broker.protocol": protocol}
    assert "not built in yet" in refusals(texts, frozenset({Feature.LISTENERS}))
    assert "not built in yet" in refusals(
        LOCKED | {"listeners": "SASL_SSL://:1"}, frozenset({Feature.LISTENERS})
    )


FAULTS = [
    ({"listeners": "X://:1"}, "No security protocol defined for listener X"),
    ({"ssl.keystore.pasword": "x"}, "ssl.keystore.pasword is no setting about security that klamm knows"),
    ({"listener.name.sasl_ssl.ssl.client.auht": "required"}, "is no setting about security"),
    ({"listener.name.SASL_SSL.ssl.client.auth": "required"}, "write its prefix in lower case"),
    ({"sasl.enabled.mechanisms": "GSSAPI"}, "klamm has no Kerberos"),
    ({"sasl.enabled.mechanisms": ""}, "klamm has no Kerberos"),
    ({"sasl.enabled.mechanisms": "PLAIN,MAGIC"}, "offers MAGIC, which is none of"),
    ({"sasl.enabled.mechanisms": "PLAIN"}, "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms when SASL is used for inter-broker communication"),
    ({"sasl.mechanism.inter.broker.protocol": "OAUTHBEARER"}, "sasl.mechanism.inter.broker.protocol must be included"),
    ({"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"}, "Could not find a 'KafkaServer' or 'sasl_ssl.KafkaServer' entry in the JAAS configuration."),
    ({"listener.name.sasl_ssl.plain.sasl.jaas.config": "x"}, "Login module control flag not specified in JAAS config"),
    ({"listener.name.sasl_ssl.plain.sasl.jaas.config": SCRAM}, "PLAIN is served by PlainLoginModule, not by ScramLoginModule"),
    ({"listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": SCRAM.replace('password="s3cret"', "")}, "has no password"),
    ({"ssl.keystore.location": "", "ssl.keystore.password": "x"}, "Listener SASL_SSL: "),
    ({"connection.failed.authentication.delay.ms": "9", "connections.max.idle.ms": "9"}, "connection.failed.authentication.delay.ms=9 should always be less than connections.max.idle.ms=9 to prevent failed authentication responses from timing out"),
    ({"max.connections.per.ip": "0"}, "max.connections.per.ip can be set to zero only if"),
    ({"password.encoder.cipher.algorithm": "DES"}, "password.encoder.cipher.algorithm is one of"),
    ({"zookeeper.ssl.keystore.location": "k"}, "has no effect without zookeeper.ssl.client.enable=true"),
    ({"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}, "klamm loads no class of Java's"),
    ({"authorizer.class.name": ""}, "super.users is set without authorizer.class.name"),
    ({"super.users": "admin"}, "super.users"),
    ({"zookeeper.ssl.ocsp.enable": "true"}, "revocation"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "words"), FAULTS)
def test_contradictions_are_refused(change: dict[str, str], words: str) -> None:
    told = refusals(LOCKED | change)
    assert words in told
    assert "s3cret" not in told


def test_unsigned_tokens_are_for_tests_only() -> None:
    prefix = "listener.name.sasl_ssl.oauthbearer."
    texts = LOCKED | {
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,OAUTHBEARER",
        f"{prefix}sasl.jaas.config": OAUTH,
    }
    assert "nobody signed" in refusals(texts)
    assert refusals(texts | {"klamm.allow.unsecured.oauth": "true"}) == ""
    signed = texts | {f"{prefix}sasl.server.callback.handler.class": HANDLER}
    assert "need sasl.oauthbearer.jwks.endpoint.url" in refusals(signed)
    assert refusals(signed | {"sasl.oauthbearer.jwks.endpoint.url": "file:/k"}) == ""
    for option in ('ssl.truststore.location="x"', 'unsecuredValidatorRequiredScope="x"'):
        demanding = {f"{prefix}sasl.jaas.config": OAUTH.replace(";", f" {option};")}
        assert option.partition("=")[0] in refusals(signed | demanding)
    slip = {f"{prefix}sasl.jaas.config": OAUTH.replace(";", ' unsecuredValidatorRequiredScop="x";')}
    assert "RequiredScop is none of" in refusals(
        texts | slip | {"klamm.allow.unsecured.oauth": "true"}
    )
    # A handler for the whole broker is not one of a mechanism on a listener.
    assert "nobody signed" in refusals(texts | {"sasl.server.callback.handler.class": HANDLER})


def test_python_callable_can_authorize() -> None:
    assert refusals(LOCKED | {"authorizer.class.name": "my.module:decide"}) == ""
    for text in ("my.module", "my module:decide", "my.module:", ":decide", "a:b:c"):
        assert refusals(LOCKED | {"authorizer.class.name": text})


def warnings(change: dict[str, str]) -> str:
    return "\n".join(check_start(LOCKED | change).warnings)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ssl.client.auth": "required"}, "does not hold for SASL_SSL"),
        ({"listeners": "SASL_SSL://:1,SASL_PLAINTEXT://:2"}, "SASL_PLAINTEXT is not encrypted"),
        ({"listener.name.later.ssl.protocol": "TLSv1.3"}, "as long as there is no such listener"),
        ({"sasl.jaas.config": PLAIN}, "Server config sasl.jaas.config should be prefixed with SASL mechanism name, ignoring config"),
        ({"listener.name.sasl_ssl.sasl.jaas.config": PLAIN}, "should be prefixed with SASL mechanism"),
        ({"sasl.kerberos.service.name": "kafka"}, "klamm has no Kerberos"),
    ],
)  # fmt: skip
def test_what_has_no_effect_is_told(change: dict[str, str], words: str) -> None:
    assert words in warnings(change)
    assert "s3cret" not in warnings(change)
