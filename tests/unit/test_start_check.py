"""No setting about security, addresses or who a broker is is taken and ignored."""

from __future__ import annotations

import pytest

from klamm import Cluster
from klamm.app import ClusterApp, Plan
from klamm.model.errors import UsageError
from klamm.security.settings.table import SECURITY_SETTINGS, Effect
from klamm.start_check import FEATURES, heed

ASKING = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "listeners": "SASL_SSL://:9093",
    "security.inter.broker.protocol": "SASL_SSL",
    "ssl.client.auth": "required",
    "ssl.keystore.location": "/etc/kafka/broker.p12",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "super.users": "User:admin",
    "zookeeper.set.acl": "true",
    "zookeeper.ssl.client.enable": "true",
    "delegation.token.secret.key": "secret",
    "password.encoder.secret": "secret",
    "connections.max.reauth.ms": "60000",
    "advertised.listeners": "PLAINTEXT://broker.example:9092",
    "broker.id": "7",
}


@pytest.mark.parametrize("name", ASKING)
def test_who_asks_for_what_is_not_there_gets_no_cluster(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        ClusterApp(Plan(settings={name: ASKING[name]}))


def test_one_listener_of_several_that_asks_for_protection_is_enough() -> None:
    (refusal, *_) = heed({"listeners": "PLAINTEXT://:9092,SASL_SSL://:9093"}).refusals
    assert refusal.startswith("listeners ")
    assert "--host and --port" in refusal


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
