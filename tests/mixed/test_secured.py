"""Both kinds with locked doors between them: one server.properties, but for numbers and places.

Brokers log in to each other by SCRAM over TLS, the controller speaks to brokers on a listener of
its own, where both show certificates, and access control lists are on. klamm runs from the file
that Kafka runs from.
"""

from __future__ import annotations

import os
import socket
import ssl
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from klamm.model.scram import ScramMechanism
from klamm.secured.authority import Authority
from klamm.security.credentials.scram import encode_credential, from_password
from klamm.store import layout
from mixed.cluster import MixedCluster
from mixed.conftest import Shown
from mixed.hosts import KAFKA, KLAMM, BrokerProcess, KafkaBroker, KlammBroker, free_port
from mixed.test_mixed import ALL_WAYS, check_equal_logs, coordinator, produce, read
from unit.store.zookeeper_server import ZooKeeperServer

PASSWORD = "between,us="
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
IDS = {1: KAFKA, 2: KAFKA, 10: KLAMM, 11: KLAMM}


class LockedKlamm(KlammBroker):
    """A broker of klamm from a file of Kafka's."""

    def _command(self) -> list[str]:
        settings = {
            "broker.id": str(self.id),
            "log.dirs": str(self.directory),
            "zookeeper.connect": self.zookeeper,
            **self.settings,
        }
        config = self.output.with_suffix(".properties")
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return [sys.executable, "-m", "klamm", "broker", "--config", str(config)]


def settings_of(broker: BrokerProcess, place: Path) -> dict[str, str]:
    """What both kinds are told."""
    internal, control = free_port(), free_port()
    return {
        "listeners": f"CLIENTS://{broker.address},INTERNAL://127.0.0.1:{internal},"
        f"CONTROL://127.0.0.1:{control}",
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,INTERNAL:SASL_SSL,CONTROL:SSL",
        "inter.broker.listener.name": "INTERNAL",
        "control.plane.listener.name": "CONTROL",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.internal.scram-sha-512.sasl.jaas.config": (
            f'{SCRAM} username="broker" password="{PASSWORD}";'
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(place / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(place / "ca.pem"),
        "listener.name.control.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]*).*$/$1/",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        # Whoever is at the test's own door may do everything but touch what is denied to it.
        "super.users": "User:broker",
    }


@pytest.fixture(scope="module")
def locked(
    zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MixedCluster]:
    place = tmp_path_factory.mktemp("locked")
    now = datetime.now(UTC)
    authority = Authority.make("mixed", now)
    (place / "ca.pem").write_text(authority.certificate)
    (place / "broker.pem").write_text(authority.issue("broker", now, hosts=["127.0.0.1"]).both)
    cluster = MixedCluster(f"{zookeeper.connect_string}/locked", place)
    seed(cluster)
    for broker_id, kind in IDS.items():
        broker = cluster.add(kind, broker_id)
        if kind == KLAMM:
            broker = LockedKlamm(broker_id, cluster.zookeeper, place, broker.settings)
            cluster.brokers[broker_id] = broker
        assert isinstance(broker, KafkaBroker | LockedKlamm)
        broker.settings |= settings_of(broker, place)
    try:
        cluster.start(*IDS)
        yield cluster
    finally:
        cluster.close()


def seed(cluster: MixedCluster) -> None:
    """What `kafka-configs.sh --zookeeper` writes before the first broker: users, and first ACLs."""
    mechanism = ScramMechanism("SCRAM-SHA-512")
    credential = encode_credential(from_password(mechanism, PASSWORD, os.urandom(16), 4096))
    store = cluster._store
    store.create(
        "/config/users/broker",
        layout.encode_config({mechanism.value: credential}),
        makepath=True,
    )
    everything = (
        b'{"version":1,"acls":[{"principal":"User:ANONYMOUS","permissionType":"Allow",'
        b'"operation":"All","host":"*"}]}'
    )
    for kind in ("Topic", "Group", "TransactionalId"):
        store.create(f"/kafka-acl/{kind}/*", everything, makepath=True)
    store.create("/kafka-acl/Cluster/kafka-cluster", everything, makepath=True)


@pytest.mark.parametrize("controller", [KAFKA, KLAMM])
def test_both_kinds_behind_locked_doors(
    locked: MixedCluster, controller: str, shown: Shown
) -> None:
    with shown("SASL_SSL between brokers, control.plane.listener, ACLs", controller) as said:
        locked.controlled_by(controller)
        topic = f"locked-{controller}"
        count = locked.create(topic, ALL_WAYS)
        produce(locked, topic, count, 600)
        check_equal_logs(locked, topic, count)
        said.append("replicated both ways")

        # Under a controller of the other kind, and back, with one broker dead in between.
        victim = 2 if controller == KLAMM else 11
        locked.brokers[victim].kill()
        locked.until(
            lambda: all(
                victim not in locked.state(topic, at).get("isr", [victim]) for at in range(count)
            ),
            "the dead one to leave the in-sync sets",
        )
        produce(locked, topic, count, 60)
        locked.start(victim)
        locked.settle(topic, count)
        check_equal_logs(locked, topic, count)
        said.append("a broker died and came back")

        assert len(read(locked, f"{topic}-group", topic, 660)) == 660
        assert coordinator(locked, f"{topic}-group") in locked.brokers
        locked.delete(topic)
        said.append("read by a group, deleted")


def test_lists_made_by_one_kind_hold_for_the_other(locked: MixedCluster, shown: Shown) -> None:
    with shown("an ACL made through one kind is in force on the other", "both") as said:
        locked.controlled_by(KLAMM)
        for maker in (KAFKA, KLAMM):
            topic = f"denied-by-{maker}"
            # One partition at a leader of the other kind.
            leader = locked.of(KLAMM if maker == KAFKA else KAFKA)[0]
            locked.create(topic, [[leader]], min_insync_replicas="1")
            through = locked.brokers[locked.of(maker)[0]].address
            admin = AdminClient({"bootstrap.servers": through})
            denial = AclBinding(
                ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*",
                AclOperation.WRITE, AclPermissionType.DENY,
            )  # fmt: skip
            admin.create_acls([denial])[denial].result(30)
            locked.until(lambda topic=topic: is_denied(locked, topic), "the denial to hold", 20)
            said.append(f"{maker}'s denial at {locked.kind(leader)}'s leader")


def is_denied(cluster: MixedCluster, topic: str) -> bool:
    heard: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    producer.produce(topic, b"x", on_delivery=lambda fault, _: heard.append(fault))
    try:
        producer.flush(30)
    except KafkaException as fault:
        heard.append(fault)
    return any("authorization" in str(fault) for fault in heard)


def test_a_stranger_does_not_get_in_between(locked: MixedCluster, shown: Shown) -> None:
    with shown("a client without a certificate at the control listener", "both") as said:
        nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        nobody.check_hostname, nobody.verify_mode = False, ssl.CERT_NONE
        for broker in locked.running:
            control = int(broker.settings["listeners"].rpartition(":")[2])
            # With TLS 1.3 a client hears after its handshake what is thought of it.
            with (
                socket.create_connection(("127.0.0.1", control), timeout=20) as bare,
                pytest.raises(ssl.SSLError, match="alert"),
                nobody.wrap_socket(bare) as shaken,
            ):
                shaken.recv(1)
        said.append("is turned away by either kind")
