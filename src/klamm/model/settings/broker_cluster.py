"""Broker settings about the cluster: topics, the controller, replication."""

from __future__ import annotations

from typing import Final

from klamm.model.settings.definition import (
    LONG_MAX,
    AtLeast,
    Definition,
    Dynamic,
    Kind,
    setting,
)

_WIDE: Final = Dynamic.CLUSTER_WIDE
_FROM_0: Final = AtLeast(0)
_FROM_1: Final = AtLeast(1)

TOPIC_ADMIN: Final[tuple[Definition, ...]] = (
    setting(
        "auto.create.topics.enable",
        Kind.BOOLEAN,
        "true",
        "Whether asking for an unknown topic may create it.",
    ),
    setting(
        "num.partitions",
        Kind.INT,
        "1",
        "How many partitions a topic gets that does not say.",
        _FROM_1,
    ),
    setting(
        "default.replication.factor",
        Kind.INT,
        "1",
        "How many replicas a topic gets that does not say.",
    ),
    setting("delete.topic.enable", Kind.BOOLEAN, "true", "Whether topics can be deleted."),
    setting(
        "create.topic.policy.class.name",
        Kind.CLASS,
        None,
        "A Python callable package.module:name that may refuse a new topic.",
    ),
    setting(
        "alter.config.policy.class.name",
        Kind.CLASS,
        None,
        "A Python callable package.module:name that may refuse a change of settings.",
    ),
)

CONTROLLER: Final[tuple[Definition, ...]] = (
    setting(
        "broker.id",
        Kind.INT,
        "-1",
        "The number of a broker (`klamm broker`); -1: the one its logs are of, or a drawn one. A "
        "whole cluster (`klamm up`) numbers its brokers from 0.",
    ),
    setting(
        "node.id",
        Kind.INT,
        "-1",
        "Another name of broker.id.",
    ),
    setting(
        "broker.id.generation.enable",
        Kind.BOOLEAN,
        "true",
        "Whether a broker without a number gets one from the store (`klamm broker`).",
    ),
    setting(
        "reserved.broker.max.id",
        Kind.INT,
        "1000",
        "The highest number that may be given by hand while numbers are also drawn.",
        _FROM_0,
    ),
    setting(
        "broker.rack",
        Kind.STRING,
        None,
        "The rack of this broker: replicas of a partition are spread over racks.",
    ),
    setting(
        "auto.leader.rebalance.enable",
        Kind.BOOLEAN,
        "true",
        "Whether leadership goes back to preferred leaders by itself.",
    ),
    setting(
        "leader.imbalance.check.interval.seconds",
        Kind.LONG,
        "300",
        "How often the balance of leaders is checked.",
        _FROM_1,
    ),
    setting(
        "leader.imbalance.per.broker.percentage",
        Kind.INT,
        "10",
        "How much imbalance of a broker is left alone.",
    ),
    setting(
        "controlled.shutdown.enable",
        Kind.BOOLEAN,
        "true",
        "Whether a stopping broker first hands over what it leads.",
    ),
    setting("controlled.shutdown.max.retries", Kind.INT, "3", "How often handing over is tried."),
    setting(
        "controlled.shutdown.retry.backoff.ms",
        Kind.LONG,
        "5000",
        "The pause between two tries to hand over.",
    ),
    setting(
        "controller.socket.timeout.ms",
        Kind.INT,
        "30000",
        "How long the controller waits for a broker's answer.",
    ),
    setting(
        "zookeeper.session.timeout.ms",
        Kind.INT,
        "18000",
        "How long a broker may be silent before the store counts it as gone.",
        _FROM_1,
    ),
    setting(
        "zookeeper.connection.timeout.ms",
        Kind.INT,
        None,
        "How long a start tries to reach the ZooKeeper before it gives up; as long as a session "
        "lives where it is not set.",
        AtLeast(1),
    ),
    setting(
        "zookeeper.connect",
        Kind.STRING,
        None,
        "The ZooKeeper to use instead of the embedded store.",
    ),
)

ZOOKEEPER: Final[tuple[Definition, ...]] = (
    setting(
        "zookeeper.set.acl",
        Kind.BOOLEAN,
        "false",
        "Whether new nodes are protected: all may read, only brokers may write, and credentials "
        "are for brokers alone. Needs a login, by digest, SASL or certificate; an embedded store "
        "has its own.",
    ),
    setting(
        "zookeeper.ssl.client.enable",
        Kind.BOOLEAN,
        "false",
        "Whether ZooKeeper is reached by TLS.",
    ),
    setting(
        "zookeeper.clientCnxnSocket",
        Kind.STRING,
        None,
        "A class of Java's that Kafka needs for TLS to ZooKeeper; taken as it is there, and not "
        "needed here.",
    ),
    setting(
        "zookeeper.ssl.keystore.location",
        Kind.STRING,
        None,
        "The certificate and key that are shown to ZooKeeper.",
    ),
    setting(
        "zookeeper.ssl.keystore.password",
        Kind.PASSWORD,
        None,
        "The password of that store, and of the key in it.",
    ),
    setting(
        "zookeeper.ssl.keystore.type",
        Kind.STRING,
        None,
        "PEM, PKCS12 or JKS; by the end of the file's name where it is not set.",
    ),
    setting(
        "zookeeper.ssl.truststore.location",
        Kind.STRING,
        None,
        "The certificates that ZooKeeper's has to be signed by; those of the machine where it is "
        "not set.",
    ),
    setting(
        "zookeeper.ssl.truststore.password",
        Kind.PASSWORD,
        None,
        "The password of that store.",
    ),
    setting(
        "zookeeper.ssl.truststore.type",
        Kind.STRING,
        None,
        "As with the other store.",
    ),
    setting(
        "zookeeper.ssl.protocol",
        Kind.STRING,
        None,
        "The newest version of TLS that is spoken with ZooKeeper; TLSv1.3 where it is not set.",
    ),
    setting(
        "zookeeper.ssl.enabled.protocols",
        Kind.LIST,
        None,
        "The versions of TLS that are spoken with ZooKeeper; TLSv1.2 and TLSv1.3 where it is not "
        "set.",
    ),
    setting(
        "zookeeper.ssl.cipher.suites",
        Kind.LIST,
        None,
        "The cipher suites for ZooKeeper, by their IANA names.",
    ),
    setting(
        "zookeeper.ssl.endpoint.identification.algorithm",
        Kind.STRING,
        "HTTPS",
        "HTTPS: the name of the server has to be in its certificate; empty: it need not.",
    ),
)

REPLICATION: Final[tuple[Definition, ...]] = (
    setting(
        "replica.fetch.max.bytes",
        Kind.INT,
        "1048576",
        "How much of one partition a follower asks for.",
        _FROM_0,
    ),
    setting(
        "replica.fetch.response.max.bytes",
        Kind.INT,
        "10485760",
        "How much in all a follower asks for.",
        _FROM_0,
    ),
    setting(
        "replica.fetch.min.bytes",
        Kind.INT,
        "1",
        "How much a leader gathers before it answers a follower.",
    ),
    setting(
        "replica.fetch.wait.max.ms",
        Kind.INT,
        "500",
        "How long a leader gathers before it answers a follower.",
    ),
    setting(
        "replica.fetch.backoff.ms",
        Kind.INT,
        "1000",
        "The pause of a follower after an error.",
        _FROM_0,
    ),
    setting(
        "replica.lag.time.max.ms",
        Kind.LONG,
        "30000",
        "How far behind, in time, a follower may be and stay in sync.",
    ),
    setting(
        "replica.selector.class",
        Kind.STRING,
        None,
        "Lets consumers read from the nearest replica: the RackAwareReplicaSelector of Kafka.",
    ),
    setting(
        "leader.replication.throttled.rate",
        Kind.LONG,
        str(LONG_MAX),
        "Bytes a second this broker's leaders send to throttled replicas.",
        _FROM_0,
        _WIDE,
    ),
    setting(
        "follower.replication.throttled.rate",
        Kind.LONG,
        str(LONG_MAX),
        "Bytes a second this broker's throttled followers copy.",
        _FROM_0,
        _WIDE,
    ),
)
