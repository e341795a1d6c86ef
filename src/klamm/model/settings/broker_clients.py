"""Broker settings about clients: groups, transactions, quotas, the network."""

from __future__ import annotations

from typing import Final

from klamm.model.settings.definition import (
    INT_MAX,
    AtLeast,
    CountsByHost,
    Definition,
    Dynamic,
    Kind,
    OneOf,
    setting,
)

_WIDE: Final = Dynamic.CLUSTER_WIDE
_FROM_0: Final = AtLeast(0)
_FROM_1: Final = AtLeast(1)

# What `group.consumer.assignors` may name, and whom it means by that.
CONSUMER_ASSIGNORS: Final = {
    "uniform": "uniform",
    "range": "range",
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}

GROUPS: Final[tuple[Definition, ...]] = (
    setting(
        "group.initial.rebalance.delay.ms",
        Kind.INT,
        "3000",
        "How long a new group waits for more members.",
    ),
    setting(
        "group.min.session.timeout.ms",
        Kind.INT,
        "6000",
        "The shortest session timeout of a member.",
    ),
    setting(
        "group.max.session.timeout.ms",
        Kind.INT,
        "1800000",
        "The longest session timeout of a member.",
    ),
    setting(
        "group.max.size", Kind.INT, str(INT_MAX), "How many members a group may have.", _FROM_1
    ),
    setting(
        "group.coordinator.rebalance.protocols",
        Kind.LIST,
        "classic,consumer",
        "The group protocols that clients may use; `consumer` is the new one (KIP-848).",
        OneOf(("classic", "consumer")),
    ),
    setting(
        "group.consumer.session.timeout.ms",
        Kind.INT,
        "45000",
        "After how long without a heartbeat a member of the new protocol is gone.",
        _FROM_1,
    ),
    setting(
        "group.consumer.min.session.timeout.ms",
        Kind.INT,
        "45000",
        "The shortest session timeout that may be set for groups of the new protocol.",
        _FROM_1,
    ),
    setting(
        "group.consumer.max.session.timeout.ms",
        Kind.INT,
        "60000",
        "The longest session timeout that may be set for groups of the new protocol.",
        _FROM_1,
    ),
    setting(
        "group.consumer.heartbeat.interval.ms",
        Kind.INT,
        "5000",
        "How often members of the new protocol are told to report.",
        _FROM_1,
    ),
    setting(
        "group.consumer.min.heartbeat.interval.ms",
        Kind.INT,
        "5000",
        "The shortest heartbeat interval that may be set for groups of the new protocol.",
        _FROM_1,
    ),
    setting(
        "group.consumer.max.heartbeat.interval.ms",
        Kind.INT,
        "15000",
        "The longest heartbeat interval that may be set for groups of the new protocol.",
        _FROM_1,
    ),
    setting(
        "group.consumer.max.size",
        Kind.INT,
        str(INT_MAX),
        "How many members a group of the new protocol may have.",
        _FROM_1,
    ),
    setting(
        "group.consumer.assignors",
        Kind.LIST,
        "uniform,range",
        "The assignors that members may ask for; the first is taken when they do not. "
        "Kafka's class names are understood.",
        OneOf(tuple(CONSUMER_ASSIGNORS)),
    ),
    setting(
        "offset.metadata.max.bytes",
        Kind.INT,
        "4096",
        "The longest text that may be stored with an offset.",
    ),
    setting(
        "offsets.topic.num.partitions",
        Kind.INT,
        "50",
        "The partitions of __consumer_offsets.",
        _FROM_1,
    ),
    setting(
        "offsets.topic.replication.factor",
        Kind.SHORT,
        "3",
        "The replicas of __consumer_offsets.",
        _FROM_1,
    ),
    setting(
        "offsets.topic.segment.bytes",
        Kind.INT,
        "104857600",
        "segment.bytes of __consumer_offsets.",
        _FROM_1,
    ),
    setting(
        "offsets.retention.minutes",
        Kind.INT,
        "10080",
        "When the offsets of an empty group are forgotten.",
        _FROM_1,
    ),
    setting(
        "offsets.retention.check.interval.ms",
        Kind.LONG,
        "600000",
        "How often forgotten offsets are looked for.",
        _FROM_1,
    ),
    setting(
        "offsets.commit.timeout.ms",
        Kind.INT,
        "5000",
        "How long a commit waits for the replicas.",
        _FROM_1,
    ),
)

TRANSACTIONS: Final[tuple[Definition, ...]] = (
    setting("transaction.max.timeout.ms", Kind.INT, "900000", "The longest transaction.", _FROM_1),
    setting(
        "transaction.partition.verification.enable",
        Kind.BOOLEAN,
        "true",
        "Whether leaders ask the coordinator before a transaction opens in a partition (KIP-890).",
        dynamic=_WIDE,
    ),
    setting(
        "transactional.id.expiration.ms",
        Kind.INT,
        "604800000",
        "When an idle transactional id is forgotten.",
        _FROM_1,
    ),
    setting(
        "transaction.state.log.num.partitions",
        Kind.INT,
        "50",
        "The partitions of __transaction_state.",
        _FROM_1,
    ),
    setting(
        "transaction.state.log.replication.factor",
        Kind.SHORT,
        "3",
        "The replicas of __transaction_state.",
        _FROM_1,
    ),
    setting(
        "transaction.state.log.min.isr",
        Kind.INT,
        "2",
        "min.insync.replicas of __transaction_state.",
        _FROM_1,
    ),
    setting(
        "transaction.state.log.segment.bytes",
        Kind.INT,
        "104857600",
        "segment.bytes of __transaction_state.",
        _FROM_1,
    ),
    setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        Kind.INT,
        "10000",
        "How often overdue transactions are looked for.",
        _FROM_1,
    ),
    setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        Kind.INT,
        "3600000",
        "How often idle transactional ids are looked for.",
        _FROM_1,
    ),
)

QUOTAS: Final[tuple[Definition, ...]] = (
    setting(
        "controller.quota.window.num",
        Kind.INT,
        "11",
        "With the window's size: how long a burst of topic changes may be saved up.",
        _FROM_1,
    ),
    setting(
        "controller.quota.window.size.seconds",
        Kind.INT,
        "1",
        "One window of controller.quota.window.num.",
        _FROM_1,
    ),
    setting(
        "quota.window.num",
        Kind.INT,
        "11",
        "Over how many windows client quotas are measured.",
        _FROM_1,
    ),
    setting("quota.window.size.seconds", Kind.INT, "1", "One window of quota.window.num.", _FROM_1),
    setting(
        "replication.quota.window.num",
        Kind.INT,
        "11",
        "Over how many windows replication throttles are measured.",
        _FROM_1,
    ),
    setting(
        "replication.quota.window.size.seconds",
        Kind.INT,
        "1",
        "One window of replication.quota.window.num.",
        _FROM_1,
    ),
)

NETWORK: Final[tuple[Definition, ...]] = (
    setting("socket.request.max.bytes", Kind.INT, "104857600", "The largest request.", _FROM_1),
    setting("connections.max.idle.ms", Kind.LONG, "600000", "When an idle connection is closed."),
    setting(
        "request.timeout.ms",
        Kind.INT,
        "30000",
        "How long a broker waits for another broker's answer.",
    ),
    setting(
        "max.connections",
        Kind.INT,
        "2147483647",
        "How many connections a broker has; one too many waits until another is closed. Those of "
        "brokers do not count.",
        _FROM_1,
        _WIDE,
    ),
    setting(
        "max.connections.per.ip",
        Kind.INT,
        "2147483647",
        "How many of them one address may have.",
        AtLeast(0),
        _WIDE,
    ),
    setting(
        "max.connections.per.ip.overrides",
        Kind.LIST,
        "",
        "How many some addresses may have instead.",
        CountsByHost(),
        _WIDE,
    ),
    setting(
        "max.connection.creation.rate",
        Kind.INT,
        "2147483647",
        "How many connections a second a broker begins to serve; those beyond it wait.",
        _FROM_1,
        _WIDE,
    ),
    setting("fetch.max.bytes", Kind.INT, "57671680", "The most one Fetch answers.", AtLeast(1024)),
)
