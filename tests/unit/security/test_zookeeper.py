"""Settings of ZooKeeper's door."""

from __future__ import annotations

import pytest

from klamm.model.errors import Refused
from klamm.security.settings.start import check_start
from klamm.security.tls.config import StoreType
from klamm.security.zookeeper import ZooKeeperAccess, zookeeper_access

LOGIN = "org.apache.zookeeper.server.auth.DigestLoginModule required"
TLS = {"zookeeper.ssl.client.enable": "true"}


def access(**texts: str) -> ZooKeeperAccess:
    told = zookeeper_access({name.replace("_", "."): text for name, text in texts.items()})
    assert isinstance(told, ZooKeeperAccess), told
    return told


def test_nothing_is_asked_for_by_default() -> None:
    assert access() == ZooKeeperAccess()
    assert not access().is_somebody


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.p12", StoreType.PKCS12), ("a.PEM", StoreType.PEM), ("a.jks", StoreType.JKS)],
)
def test_a_store_is_known_by_the_end_of_its_name(name: str, kind: StoreType) -> None:
    told = zookeeper_access(
        TLS | {"zookeeper.ssl.keystore.location": name, "zookeeper.ssl.keystore.password": "x"}
    )
    assert isinstance(told, ZooKeeperAccess)
    assert told.is_somebody
    assert told.tls is not None
    assert told.tls.key is not None
    assert told.tls.key.type is kind


def test_a_login_does_not_show_its_password() -> None:
    told = access(klamm_zookeeper_sasl_jaas_config=f'{LOGIN} username="bob" password="sesame";')
    assert told.user == "bob"
    assert told.is_somebody
    assert "sesame" not in repr(told)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (TLS | {"zookeeper.ssl.protocol": "SSLv3"}, "ssl.protocol is TLSv1.2"),
        (TLS | {"zookeeper.ssl.enabled.protocols": "TLSv1"}, "Older versions are not safe"),
        (
            TLS | {"zookeeper.ssl.keystore.type": "BCFKS", "zookeeper.ssl.keystore.location": "x"},
            "PKCS12 or JKS",
        ),
        (TLS | {"zookeeper.ssl.endpoint.identification.algorithm": "LDAPS"}, "https or empty"),
        (TLS | {"zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNIO"}, "Netty"),
        ({"klamm.zookeeper.sasl.jaas.config": "nonsense"}, "klamm.zookeeper.sasl.jaas.config"),
        ({"klamm.zookeeper.sasl.jaas.config": "a.Krb5LoginModule required;"}, "DigestLoginModule"),
        ({"klamm.zookeeper.sasl.jaas.config": f"{LOGIN} username=bob;"}, "and a password"),
    ],
)
def test_what_makes_no_sense_refuses_the_start(texts: dict[str, str], said: str) -> None:
    told = zookeeper_access(texts)
    assert isinstance(told, Refused)
    assert said in told.why
    assert told.why in check_start(texts).refusals
