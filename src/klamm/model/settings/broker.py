"""Every setting of a broker: those klamm acts on, its own, and those it only takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from klamm.model.settings import broker_clients as clients
from klamm.model.settings import broker_cluster as cluster
from klamm.model.settings.broker_access import ACCESS
from klamm.model.settings.broker_idle import IDLE
from klamm.model.settings.broker_klamm import KLAMM
from klamm.model.settings.broker_listeners import LISTENERS
from klamm.model.settings.broker_log import LOG_SETTINGS, TOPIC_DEFAULTS
from klamm.model.settings.broker_security import SASL, TLS
from klamm.model.settings.definition import Definition, by_name

# In the order of the documentation.
GROUPS: Final[Mapping[str, tuple[Definition, ...]]] = {
    "Topics and their administration": cluster.TOPIC_ADMIN,
    "Defaults of topic settings": TOPIC_DEFAULTS,
    "Brokers and the controller": cluster.CONTROLLER,
    "ZooKeeper's door": cluster.ZOOKEEPER,
    "Replication": cluster.REPLICATION,
    "Logs": LOG_SETTINGS,
    "Consumer groups": clients.GROUPS,
    "Transactions": clients.TRANSACTIONS,
    "Quotas": clients.QUOTAS,
    "Network": clients.NETWORK,
    "Listeners": LISTENERS,
    "TLS": TLS,
    "SASL": SASL,
    "Access": ACCESS,
    "klamm's own": KLAMM,
    "Without effect": IDLE,
}

# Kafka takes these without telling of them: they are internal, or its authorizer's own. They are
# described where somebody set them.
UNTOLD: Final = frozenset(
    {
        "allow.everyone.if.no.acl.found",
        "controller.performance.always.log.threshold.ms",
        "controller.performance.sample.period.ms",
        "group.consumer.migration.policy",
        "group.coordinator.new.enable",
        "group.share.enable",
        "log.initial.task.delay.ms",
        "metadata.log.segment.min.bytes",
        "producer.id.expiration.check.interval.ms",
        "remote.log.manager.task.retry.backoff.max.ms",
        "remote.log.manager.task.retry.backoff.ms",
        "remote.log.manager.task.retry.jitter",
        "sasl.oauthbearer.header.urlencode",
        "server.max.startup.time.ms",
        "super.users",
        "unclean.leader.election.interval.ms",
        "unstable.api.versions.enable",
        "unstable.feature.versions.enable",
        "zookeeper.metadata.migration.min.batch.size",
    }
)

BROKER_SETTINGS: Final[Mapping[str, Definition]] = by_name(
    definition for group in GROUPS.values() for definition in group
)
