"""No setting about security, addresses or who a broker is is taken and ignored."""

from __future__ import annotations

import pytest

from klamm import Cluster
from klamm.app.one_process import ClusterApp
from klamm.app.plan import Plan
from klamm.model.errors import UsageError
from klamm.security.settings.table import SECURITY_SETTINGS, Effect, Feature
from klamm.start_check import FEATURES, heed, heed_alone

ASKING = {
    "listeners": "SASL_SSL://:9093",
    "ssl.engine.factory.class": "com.example.Engine",
    "sasl.login.class": "com.example.Login",
    "super.users": "User:admin",
    "zookeeper.ssl.crl.enable": "true",
    "zookeeper.ssl.truststore.location": "/etc/kafka/ca.pem",
    "sasl.client.callback.handler.class": "com.example.Handler",
    "broker.id": "7",
}


@pytest.mark.parametrize("name", ASKING)
def test_who_asks_for_what_is_not_there_gets_no_cluster(name: str) -> None:
    with pytest.raises(UsageError, match="SASL_SSL" if name == "listeners" else name):
        ClusterApp(Plan(settings={name: ASKING[name]}))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"authorizer.class.name": "com.example.Rules"}, "klamm loads no class of Java's"),
        ({"authorizer.class.name": "no_such_module:rules"}, "No module named 'no_such_module'"),
        ({"authorizer.class.name": "json:no_such_rules"}, "json has no no_such_rules"),
        ({"authorizer.class.name": "klamm", "super.users": "admin"}, "Write type:name"),
        (
            {"authorizer.class.name": "json:loads", "allow.everyone.if.no.acl.found": "true"},
            "names other rules",
        ),
    ],
)
def test_rules_that_cannot_be_had_give_no_cluster(settings: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=told), Cluster(1, settings=settings):
        pass


@pytest.mark.parametrize("name", ["ssl.client.auth", "sasl.enabled.mechanisms"])
def test_protection_that_no_listener_gives_is_refused(name: str) -> None:
    asked = {"ssl.client.auth": "required", "sasl.enabled.mechanisms": "PLAIN"}[name]
    with pytest.raises(UsageError, match=f"{name} has no effect: no listener"):
        ClusterApp(Plan(settings={name: asked}))


def test_one_listener_of_several_that_asks_for_protection_is_enough() -> None:
    (refusal, *_) = heed({"listeners": "PLAINTEXT://:9092,SASL_SSL://:9093"}).refusals
    assert "SASL_SSL" in refusal


def test_listeners_are_heeded_and_what_does_not_fit_is_refused() -> None:
    assert heed({"listeners": "PLAINTEXT://:9092"}).refusals == ()
    (refusal,) = heed({"security.inter.broker.protocol": "SASL_SSL"}).refusals
    assert "must be a listener name defined in advertised.listeners" in refusal


@pytest.mark.parametrize(
    "row",
    [row for row in SECURITY_SETTINGS.values() if row.effect is Effect.REFUSED],
    ids=lambda row: row.name,
)
def test_what_nobody_can_heed_is_refused(row: object) -> None:
    name = getattr(row, "name", "")
    assert heed({name: "something"}).refusals


@pytest.mark.parametrize(
    "row",
    [r for r in SECURITY_SETTINGS.values() if r.feature and r.feature not in FEATURES],
    ids=lambda row: row.name,
)
def test_what_has_no_part_to_heed_it_is_refused_or_asks_for_nothing(row: object) -> None:
    """A default asks for nothing; any other text of such a setting stops the start."""
    name, default = getattr(row, "name", ""), getattr(row, "default", "")
    assert heed({name: f"{default}-and-more" if default else "something"}).refusals


def test_defaults_that_are_spelt_out_are_no_request() -> None:
    given = {"broker.id": "-1", "inter.broker.listener.name": "PLAINTEXT", "num.io.threads": "8"}
    heeded = heed(given)
    assert heeded.refusals == ()
    assert "num.io.threads" in heeded.idle


def test_what_has_no_effect_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    ClusterApp(Plan(settings={"num.io.threads": "16", "num.network.threads": "4"}))
    told = [r.getMessage() for r in caplog.records if "no effect here" in r.getMessage()]
    assert told == ["no effect here: num.io.threads, num.network.threads"]


def test_a_cluster_in_a_program_is_refused_with_the_same_sentence() -> None:
    with (
        pytest.raises(UsageError, match=r"authorizer\.class\.name"),
        Cluster(1, settings={"authorizer.class.name": "x"}),
    ):
        pass


# A broker that asks for all that there is. Files are read later, when it starts.
_MODULES = "org.apache.kafka.common.security"
LOCKED = {
    "listeners": "SASL_SSL://:9093",
    "security.inter.broker.protocol": "SASL_SSL",
    "ssl.keystore.type": "PEM",
    "ssl.keystore.location": "/etc/kafka/broker.pem",
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": "/etc/kafka/ca.pem",
    "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.sasl_ssl.plain.sasl.jaas.config": (
        f'{_MODULES}.plain.PlainLoginModule required username="a" password="b" user_a="b";'
    ),
    "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": (
        f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required;"
    ),
    "listener.name.sasl_ssl.oauthbearer.sasl.server.callback.handler.class": (
        f"{_MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
    ),
    "sasl.oauthbearer.jwks.endpoint.url": "https://keys.example/jwks",
}
MALFORMED = {
    "listeners": "SASL_SSL",
    "advertised.listeners": "SASL_SSL://0.0.0.0:9093",
    "listener.security.protocol.map": "SASL_SSL:TLS",
    "inter.broker.listener.name": "OTHER",
    "security.inter.broker.protocol": "TLS",
    "control.plane.listener.name": "OTHER",
    "controller.listener.names": "CONTROLLER",
    "early.start.listeners": "OTHER",
    "ssl.protocol": "SSLv3",
    "ssl.enabled.protocols": "TLSv1.1",
    "ssl.cipher.suites": "TLS_RSA_WITH_NULL_SHA",
    "ssl.client.auth": "Required",
    "ssl.endpoint.identification.algorithm": "ldaps",
    "ssl.keystore.type": "BKS",
    "ssl.keystore.password": "a PEM has none",
    "ssl.keystore.key": "beside a file",
    "ssl.keystore.certificate.chain": "beside a file",
    "ssl.truststore.type": "BKS",
    "ssl.truststore.password": "a PEM has none",
    "ssl.truststore.certificates": "beside a file",
    "ssl.principal.mapping.rules": "RULE:half",
    "ssl.allow.dn.changes": "perhaps",
    "ssl.allow.san.changes": "perhaps",
    "sasl.enabled.mechanisms": "GSSAPI",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "sasl.server.max.receive.size": "0",
    "connection.failed.authentication.delay.ms": "600000",
    "connections.max.reauth.ms": "-1",
    "sasl.server.callback.handler.class": "com.example.Handler",
    "sasl.login.callback.handler.class": "com.example.Handler",
    "sasl.oauthbearer.jwks.endpoint.url": "",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": "0",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "soon",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "soon",
    "sasl.oauthbearer.clock.skew.seconds": "-1",
    "sasl.oauthbearer.header.urlencode": "perhaps",
    "sasl.login.read.timeout.ms": "0",
    "sasl.login.retry.backoff.ms": "soon",
    "sasl.login.retry.backoff.max.ms": "soon",
    "zookeeper.set.acl": "perhaps",
    "zookeeper.ssl.client.enable": "perhaps",
}
# Names, passwords, places and words: nothing is wrong with any of them before they are used.
ANY_TEXT = {
    "sasl.jaas.config",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.oauthbearer.token.endpoint.url",
    "ssl.key.password",
    "ssl.keystore.location",
    "ssl.truststore.location",
}


def test_a_broker_that_asks_for_all_there_is_may_start() -> None:
    assert heed(LOCKED).refusals == ()


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_malformed_stops_the_start(name: str) -> None:
    assert heed(LOCKED | {name: MALFORMED[name]}).refusals


def test_every_setting_about_security_is_looked_at() -> None:
    """Whatever becomes a part of the brokers comes with its malformed text here."""
    ours = {Feature.LISTENERS, Feature.TLS, Feature.SASL, Feature.OAUTH}
    in_force = {row.name for row in SECURITY_SETTINGS.values() if row.feature in ours}
    assert in_force - MALFORMED.keys() - ANY_TEXT == set()


@pytest.mark.parametrize("name", sorted(ANY_TEXT))
def test_a_listeners_own_setting_is_known_under_its_prefix(name: str) -> None:
    assert heed(LOCKED | {f"listener.name.sasl_ssl.{name}": "x"}).refusals == ()
    (refusal, *_) = heed(LOCKED | {f"listener.name.SASL_SSL.{name}": "x"}).refusals
    assert "in lower case" in refusal


def test_a_setting_that_another_speaks_louder_than_is_told() -> None:
    given = {"log.retention.hours": "1", "log.retention.ms": "5", "log.dir": "a", "log.dirs": "b"}
    told = ("log.retention.hours (log.retention.ms is set)", "log.dir (log.dirs is set)")
    assert heed(given).idle == told
    assert heed_alone(given).idle == told
    assert heed({"log.retention.hours": "1", "log.dir": "a"}).idle == ()


@pytest.mark.parametrize("name", ["process.roles", "controller.quorum.voters"])
def test_the_other_mode_of_kafka_is_refused_everywhere(name: str) -> None:
    for look in (heed, heed_alone):
        assert f"{name} asks for KRaft" in look({name: "1@h:9093"}).refusals[0]


@pytest.mark.parametrize(
    ("log_dirs", "brokers", "why"),
    [
        ("/tmp/a", 3, "/tmp/a in log.dirs would be shared by 3 brokers"),
        ("a,../b", 2, "../b in log.dirs would be shared by 2 brokers"),
        (",", 1, "log.dirs names a directory twice"),
        ("a,a/", 1, "log.dirs names a directory twice"),
        ("/tmp/a", 1, None),
        ("a,b", 3, None),
        ("", 3, None),
    ],
)
def test_brokers_do_not_meet_in_a_log_directory(
    log_dirs: str, brokers: int, why: str | None
) -> None:
    fault = Plan(brokers=brokers, settings={"log.dirs": log_dirs}).fault()
    assert fault is None if why is None else why in (fault or "")
