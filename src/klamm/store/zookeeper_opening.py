"""A ZooKeeper store as the settings of a broker ask for it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from klamm.model.errors import Refused, UsageError
from klamm.model.settings import BrokerSettings
from klamm.security.zookeeper import DIGEST_FILE, JAAS, SET_ACL, ZooKeeperAccess, zookeeper_access
from klamm.store.serving.digest import read
from klamm.store.zookeeper import ZooKeeperStore
from klamm.store.zookeeper_door import ZooKeeperDoor

_KEYSTORE: Final = "zookeeper.ssl.keystore.location"


def zookeeper_store(settings: BrokerSettings, *, digest: str = "") -> ZooKeeperStore:
    """The store that `zookeeper.connect` names; UsageError where the settings make no sense.

    A digest is shown where the settings name none.
    """
    timeout_ms = settings.int("zookeeper.session.timeout.ms")
    return ZooKeeperStore(
        settings.str("zookeeper.connect"),
        session_timeout_ms=timeout_ms,
        connection_timeout_ms=settings.int_or("zookeeper.connection.timeout.ms", timeout_ms),
        door=door_of(settings, digest=digest),
    )


def door_of(settings: BrokerSettings, *, digest: str = "") -> ZooKeeperDoor:
    """The proofs shown to ZooKeeper, and those asked of it."""
    access = zookeeper_access(settings.static)
    if isinstance(access, Refused):
        raise UsageError(access.why)
    if name := settings.str(DIGEST_FILE):
        digest = read(Path(name))
    _check_identity(access, digest)
    return ZooKeeperDoor(access, digest)


def _check_identity(access: ZooKeeperAccess, digest: str) -> None:
    """Refuse to protect nodes for nobody: ZooKeeper would take none of them."""
    if access.sets_acl and not (digest or access.is_somebody):
        raise UsageError(
            f"{SET_ACL} is true, but ZooKeeper would not know who made the nodes: log in by a "
            f"digest ({DIGEST_FILE}), by SASL ({JAAS}) or by a certificate ({_KEYSTORE}), the same "
            "for all brokers"
        )
