"""Kafka's broker settings that klamm takes but does not act on, each group with its reason.

They are here so that a configuration written for Kafka starts a klamm, and so that a misspelt name
still stands out. One line is `name kind default`; `-` is Kafka's null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from klamm.model.settings.definition import Definition, Dynamic, Kind

_KINDS: Final[Mapping[str, Kind]] = {
    "bool": Kind.BOOLEAN,
    "str": Kind.STRING,
    "int": Kind.INT,
    "short": Kind.SHORT,
    "long": Kind.LONG,
    "double": Kind.DOUBLE,
    "list": Kind.LIST,
    "class": Kind.CLASS,
    "password": Kind.PASSWORD,
}

_IDLE: Final[Mapping[str, str]] = {
    "klamm runs its brokers on one loop: there are no such threads, queues or purgatories": """
        background.threads int 10
        num.network.threads int 3
        num.io.threads int 8
        num.replica.fetchers int 1
        num.recovery.threads.per.data.dir int 1
        log.cleaner.threads int 1
        log.cleaner.io.buffer.size int 524288
        log.cleaner.io.buffer.load.factor double 0.9
        log.initial.task.delay.ms long 30000
        log.flush.start.offset.checkpoint.interval.ms int 60000
        queued.max.requests int 500
        queued.max.request.bytes long -1
        fetch.purgatory.purge.interval.requests int 1000
        producer.purgatory.purge.interval.requests int 1000
        delete.records.purgatory.purge.interval.requests int 1
        offsets.load.buffer.size int 5242880
        transaction.state.log.load.buffer.size int 5242880
        group.coordinator.threads int 1
        group.coordinator.append.linger.ms int 10
        replica.socket.receive.buffer.bytes int 65536
        replica.socket.timeout.ms int 30000
        socket.send.buffer.bytes int 102400
        socket.receive.buffer.bytes int 102400
        socket.listen.backlog.size int 50
        socket.connection.setup.timeout.ms long 10000
        socket.connection.setup.timeout.max.ms long 30000
        unclean.leader.election.interval.ms long 300000
    """,
    "klamm gives its brokers their numbers": """
    """,
    "klamm uses one protocol version between its brokers": """
        inter.broker.protocol.version str 3.9-IV0
        offsets.commit.required.acks short -1
        offsets.topic.compression.codec int 0
        unstable.api.versions.enable bool false
        unstable.feature.versions.enable bool false
    """,
    "klamm stops a broker at once that is left without a log directory": """
        log.dir.failure.timeout.ms long 30000
    """,
    "klamm keeps fetch sessions of followers only, and has no DescribeTopicPartitions": """
        max.incremental.fetch.session.cache.slots int 1000
        max.request.partition.size.limit int 2000
    """,
    "klamm measures itself in its own way": """
        auto.include.jmx.reporter bool true
        metric.reporters list
        metrics.num.samples int 2
        metrics.recording.level str INFO
        metrics.sample.window.ms long 30000
        kafka.metrics.polling.interval.secs int 10
        kafka.metrics.reporters list
        telemetry.max.bytes int 1048576
        client.quota.callback.class class -
    """,
    "klamm reaches ZooKeeper with its own client": """
        zookeeper.max.in.flight.requests int 10
        zookeeper.ssl.crl.enable bool false
        zookeeper.ssl.ocsp.enable bool false
    """,
    "klamm's controller is the one of ZooKeeper mode": """
        zookeeper.metadata.migration.enable bool false
        zookeeper.metadata.migration.min.batch.size int 200
        process.roles list
        initial.broker.registration.timeout.ms int 60000
        broker.heartbeat.interval.ms int 2000
        broker.session.timeout.ms int 9000
        controller.listener.names str -
        controller.quorum.voters list
        controller.quorum.bootstrap.servers list
        controller.quorum.election.timeout.ms int 1000
        controller.quorum.fetch.timeout.ms int 2000
        controller.quorum.election.backoff.max.ms int 1000
        controller.quorum.append.linger.ms int 25
        controller.quorum.request.timeout.ms int 2000
        controller.quorum.retry.backoff.ms int 20
        controller.performance.sample.period.ms long 60000
        controller.performance.always.log.threshold.ms long 2000
        metadata.log.dir str -
        metadata.log.max.record.bytes.between.snapshots long 20971520
        metadata.log.max.snapshot.interval.ms long 3600000
        metadata.log.segment.bytes int 1073741824
        metadata.log.segment.min.bytes int 8388608
        metadata.log.segment.ms long 604800000
        metadata.max.retention.bytes long 104857600
        metadata.max.retention.ms long 604800000
        metadata.max.idle.interval.ms int 500
        server.max.startup.time.ms long 9223372036854775807
        sasl.mechanism.controller.protocol str GSSAPI
        eligible.leader.replicas.enable bool false
    """,
    "klamm has one coordinator for both kinds of groups": """
        group.coordinator.new.enable bool true
    """,
    "klamm lets a group change its protocol when it has no members, and only then": """
        group.consumer.migration.policy str disabled
    """,
    "klamm has no share groups": """
        group.share.enable bool false
        group.share.delivery.count.limit int 5
        group.share.max.groups short 10
        group.share.max.size short 200
        group.share.partition.max.record.locks int 200
        group.share.record.lock.duration.ms int 30000
        group.share.min.record.lock.duration.ms int 15000
        group.share.max.record.lock.duration.ms int 60000
        group.share.session.timeout.ms int 45000
        group.share.min.session.timeout.ms int 45000
        group.share.max.session.timeout.ms int 60000
        group.share.heartbeat.interval.ms int 5000
        group.share.min.heartbeat.interval.ms int 5000
        group.share.max.heartbeat.interval.ms int 15000
    """,
    "klamm keeps all records on its own disks: there is no remote storage": """
        remote.log.storage.system.enable bool false
        remote.log.storage.manager.class.name str -
        remote.log.storage.manager.class.path str -
        remote.log.storage.manager.impl.prefix str rsm.config.
        remote.log.metadata.manager.class.name str org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
        remote.log.metadata.manager.class.path str -
        remote.log.metadata.manager.impl.prefix str rlmm.config.
        remote.log.metadata.manager.listener.name str -
        remote.log.metadata.custom.metadata.max.bytes int 128
        remote.log.index.file.cache.total.size.bytes long 1073741824
        remote.log.manager.thread.pool.size int 10
        remote.log.manager.copier.thread.pool.size int -1
        remote.log.manager.expiration.thread.pool.size int -1
        remote.log.manager.task.interval.ms long 30000
        remote.log.manager.task.retry.backoff.ms long 500
        remote.log.manager.task.retry.backoff.max.ms long 30000
        remote.log.manager.task.retry.jitter double 0.2
        remote.log.manager.copy.max.bytes.per.second long 9223372036854775807
        remote.log.manager.copy.quota.window.num int 11
        remote.log.manager.copy.quota.window.size.seconds int 1
        remote.log.manager.fetch.max.bytes.per.second long 9223372036854775807
        remote.log.manager.fetch.quota.window.num int 11
        remote.log.manager.fetch.quota.window.size.seconds int 1
        remote.log.reader.threads int 10
        remote.log.reader.max.pending.tasks int 100
        remote.fetch.max.wait.ms int 500
    """,  # noqa: E501
    "klamm's sasl.login.read.timeout.ms holds for connecting, too": """
        sasl.login.connect.timeout.ms int -
    """,
    "klamm has no Kerberos, and fetches a token whenever a broker logs in": """
        sasl.client.callback.handler.class class -
        sasl.login.class class -
        sasl.login.refresh.window.factor double 0.8
        sasl.login.refresh.window.jitter double 0.05
        sasl.login.refresh.min.period.seconds short 60
        sasl.login.refresh.buffer.seconds short 300
        sasl.kerberos.service.name str -
        sasl.kerberos.kinit.cmd str /usr/bin/kinit
        sasl.kerberos.ticket.renew.window.factor double 0.8
        sasl.kerberos.ticket.renew.jitter double 0.05
        sasl.kerberos.min.time.before.relogin long 60000
        sasl.kerberos.principal.to.local.rules list DEFAULT
    """,
    "klamm does not run Java and has one implementation of each of these": """
        ssl.provider str -
        ssl.keymanager.algorithm str SunX509
        ssl.trustmanager.algorithm str PKIX
        ssl.secure.random.implementation str -
        ssl.engine.factory.class class -
        principal.builder.class class org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
        security.providers str -
    """,  # noqa: E501
}


# Those that Kafka lets change while a broker runs: whoever does so is not refused here either. What
# asks for protection or for addresses is not among them: that is refused rather than ignored.
_LIVE: Final = frozenset(
    {
        "background.threads",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "log.cleaner.threads",
        "metric.reporters",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
        "remote.fetch.max.wait.ms",
        "remote.log.index.file.cache.total.size.bytes",
        "remote.log.manager.copy.max.bytes.per.second",
        "remote.log.manager.fetch.max.bytes.per.second",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "transaction.partition.verification.enable",
    }
)


# The same for one broker only.
_LIVE_PER_BROKER: Final = frozenset(
    {
        "principal.builder.class",
        "sasl.kerberos.principal.to.local.rules",
        "sasl.kerberos.service.name",
        "ssl.engine.factory.class",
        "ssl.keymanager.algorithm",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    }
)


def _dynamic(name: str) -> Dynamic:
    if name in _LIVE_PER_BROKER:
        return Dynamic.PER_BROKER
    return Dynamic.CLUSTER_WIDE if name in _LIVE else Dynamic.READ_ONLY


def _read(reason: str, lines: str) -> Iterator[Definition]:
    for line in lines.strip().splitlines():
        name, kind, *default = line.split()
        text = default[0] if default else ""
        yield Definition(
            name=name,
            kind=_KINDS[kind],
            default=None if text == "-" else text,
            doc="Accepted for Kafka's sake.",
            dynamic=_dynamic(name),
            no_effect=reason,
        )


IDLE: Final[tuple[Definition, ...]] = tuple(
    definition for reason, lines in _IDLE.items() for definition in _read(reason, lines)
)
