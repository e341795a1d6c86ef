"""The door of ZooKeeper as one checked value: what is shown there, and what is trusted.

Kafka's settings `zookeeper.ssl.*` and `zookeeper.set.acl`; what Kafka has in a JAAS file of Java's,
the login by DIGEST-MD5, is a setting of klamm's own. A store without a type is known by the end of
its name, as ZooKeeper does it, and the password of its key is that of the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from klamm.model.errors import Refused
from klamm.security.listeners.endpoints import SecurityProtocol
from klamm.security.listeners.overrides import ListenerSettings
from klamm.security.sasl.jaas import parse_jaas
from klamm.security.secret import Secret
from klamm.security.tls.config import ClientTls, StoreType, client_tls

ENABLE: Final = "zookeeper.ssl.client.enable"
SET_ACL: Final = "zookeeper.set.acl"
JAAS: Final = "klamm.zookeeper.sasl.jaas.config"
DIGEST_FILE: Final = "klamm.zookeeper.digest.file"
_SOCKET: Final = "zookeeper.clientCnxnSocket"
_NETTY: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"
_PREFIX: Final = "zookeeper."
_TLS: Final = (
    "zookeeper.ssl.keystore.location",
    "zookeeper.ssl.keystore.password",
    "zookeeper.ssl.keystore.type",
    "zookeeper.ssl.truststore.location",
    "zookeeper.ssl.truststore.password",
    "zookeeper.ssl.truststore.type",
    "zookeeper.ssl.protocol",
    "zookeeper.ssl.enabled.protocols",
    "zookeeper.ssl.cipher.suites",
    "zookeeper.ssl.endpoint.identification.algorithm",
)
_MODULE: Final = "DigestLoginModule"
_ENDS: Final = {".p12": StoreType.PKCS12, ".pfx": StoreType.PKCS12, ".pem": StoreType.PEM}


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperAccess:
    """All that a session with ZooKeeper is protected by."""

    tls: ClientTls | None = None
    user: str = ""  # of SASL; '' for none
    password: Secret | None = None
    sets_acl: bool = False

    @property
    def is_somebody(self) -> bool:
        """Whether ZooKeeper gets to know who we are."""
        return bool(self.user) or (self.tls is not None and self.tls.key is not None)


def zookeeper_access(texts: Mapping[str, str]) -> ZooKeeperAccess | Refused:
    """Reads and checks the settings, of those that were set."""
    tls = _tls(texts)
    if isinstance(tls, Refused):
        return tls
    login = _login(texts.get(JAAS, ""))
    if isinstance(login, Refused):
        return login
    user, password = login
    return ZooKeeperAccess(
        tls=tls, user=user, password=password, sets_acl=_is_true(texts.get(SET_ACL))
    )


def _tls(texts: Mapping[str, str]) -> ClientTls | Refused | None:
    if not _is_true(texts.get(ENABLE)):
        return None
    if texts.get(_SOCKET) not in (None, "", _NETTY):
        return Refused(f"{_SOCKET} is {_NETTY} or left out: others speak no TLS")
    own = {name.removeprefix(_PREFIX): texts[name] for name in _TLS if name in texts}
    for store in ("ssl.keystore", "ssl.truststore"):
        if not own.get(f"{store}.type"):
            own[f"{store}.type"] = _type_of(own.get(f"{store}.location", ""))
    if own["ssl.keystore.type"].upper() == StoreType.PEM and "ssl.keystore.password" in own:
        own["ssl.key.password"] = own.pop("ssl.keystore.password")
    told = client_tls(ListenerSettings("zookeeper", SecurityProtocol.SSL, own))
    if isinstance(told, Refused):
        return Refused(f"TLS to ZooKeeper (zookeeper.ssl.*): {told.why}")
    return told


def _type_of(location: str) -> str:
    end = location[-4:].lower()
    return _ENDS.get(end, StoreType.JKS).value


def _login(text: str) -> tuple[str, Secret | None] | Refused:
    if not text:
        return "", None
    jaas = parse_jaas(text)
    if isinstance(jaas, Refused):
        return Refused(f"{JAAS}: {jaas.why}")
    if jaas.name != _MODULE:
        return Refused(
            f"{JAAS}: klamm logs in to ZooKeeper by {_MODULE} (DIGEST-MD5), not by {jaas.name}"
        )
    user, password = jaas.option("username"), jaas.options.get("password")
    if not user or password is None:
        return Refused(f"{JAAS}: {_MODULE} needs a username and a password")
    return user, password


def _is_true(text: str | None) -> bool:
    return (text or "").strip().lower() == "true"
