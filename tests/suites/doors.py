"""Brokers from one `server.properties`, for suites that want more than an open cluster of klamm's.

The same file starts klamm (`klamm broker`) and Apache Kafka, on a ZooKeeper of its own: brokers are
numbered as the suite expects, have its listeners, certificates and users, and an authorizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from klamm.ensemble import free_port
from klamm.secured.authority import Authority
from suites.catalogue import Suite

_MECHANISMS: Final = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
_ITERATIONS: Final = 4096


def listeners(suite: Suite) -> dict[str, str]:
    """An address for each listener of one broker, by its protocol."""
    return {protocol: f"{suite.host}:{free_port()}" for protocol in suite.listeners}


def settings(suite: Suite, at: int, doors: Mapping[str, str], place: Path) -> dict[str, str]:
    """All that a file of Kafka's has for one broker, but for its directory and the ZooKeeper."""
    given = {name: value.replace("{place}", str(place)) for name, value in suite.settings.items()}
    told = ",".join(f"{protocol}://{address}" for protocol, address in doors.items())
    return {"broker.id": str(suite.first_id + at), "listeners": told, **given}


def certificates(place: Path) -> None:
    """A broker's and a client's, and the authority that both trust, as PEM."""
    now = datetime.now(UTC)
    authority = Authority.make("suites", now)
    broker = authority.issue("broker", now, hosts=["127.0.0.1", "localhost"])
    client = authority.issue("client", now)
    (place / "ca.crt").write_text(authority.certificate)
    (place / "broker.pem").write_text(broker.both)
    (place / "client.crt").write_text(client.certificate)
    (place / "client.key").write_text(client.key)


def add_users(suite: Suite, bootstrap: str) -> None:
    """The suite's users with SCRAM, made over the wire."""
    changes = [
        UserScramCredentialUpsertion(
            name, ScramCredentialInfo(_MECHANISMS[mechanism], _ITERATIONS), password.encode()
        )
        for name, passwords in suite.users.items()
        for mechanism, password in passwords.items()
    ]
    if changes:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for change in changes:
            for done in admin.alter_user_scram_credentials([change]).values():
                done.result(30)
