"""klamm's own settings. Each switches on a behaviour that Kafka does not have, or paces one.

With every one of them at its default a client cannot tell klamm from Kafka.
"""

from __future__ import annotations

from typing import Final

from klamm.model.settings.definition import (
    AtLeast,
    Between,
    Definition,
    Dynamic,
    InternalPeers,
    Kind,
    OneOf,
    setting,
)

_WIDE: Final = Dynamic.CLUSTER_WIDE
_FROM_0: Final = AtLeast(0)

KLAMM: Final[tuple[Definition, ...]] = (
    setting(
        "klamm.store.fsync",
        Kind.BOOLEAN,
        "true",
        "Whether the embedded store waits for the disk before a change counts. Off, a power cut "
        "can lose the last changes; the death of the process cannot.",
    ),
    setting(
        "klamm.store.backups",
        Kind.INT,
        "5",
        "How many back-ups of the embedded store are kept in `store-backups` of the data "
        "directory; 0 takes none, but for the rescue of a store whose file was lost.",
        Between(0, 1000),
    ),
    setting(
        "klamm.store.backup.interval.ms",
        Kind.LONG,
        "600000",
        "How often a back-up of the embedded store is taken while it changes; one is taken at each "
        "start as well.",
        AtLeast(1000),
    ),
    setting(
        "klamm.store.serve.port",
        Kind.INT,
        "-1",
        "The port on which the embedded store speaks ZooKeeper's client protocol, for brokers in "
        "other processes and for tools; 0 takes a free one, -1 none.",
        Between(-1, 65535),
    ),
    setting(
        "klamm.store.serve.host",
        Kind.STRING,
        "127.0.0.1",
        "The address on which the embedded store is served. What travels is not encrypted, so "
        "anything but this machine itself is for networks that are trusted.",
    ),
    setting(
        "klamm.store.serve.writers",
        Kind.STRING,
        "cluster",
        "Who may write to a served store: cluster, those who show the digest in `store.digest` of "
        "the data directory; or anyone who can connect, which Apache Kafka's brokers need.",
        OneOf(("cluster", "anyone")),
    ),
    setting(
        "klamm.store.serve.tick.ms",
        Kind.INT,
        "2000",
        "The unit of time of a served store: sessions time out after 2 to 20 of it, and are looked "
        "at once in it.",
        Between(100, 60_000),
    ),
    setting(
        "klamm.store.serve.connections.max",
        Kind.INT,
        "1000",
        "How many connections a served store takes. When there are more, those that have not "
        "shown the cluster's digest make room.",
        Between(1, 100_000),
    ),
    setting(
        "klamm.zookeeper.digest.file",
        Kind.STRING,
        "",
        "A file, readable by its owner alone, whose line `user:password` is shown to ZooKeeper. A "
        "store that another klamm serves asks for the `store.digest` of its data directory.",
    ),
    setting(
        "klamm.zookeeper.sasl.jaas.config",
        Kind.PASSWORD,
        None,
        "The login to ZooKeeper by SASL (DIGEST-MD5), as Kafka has it in the `Client` section of a "
        'JAAS file: org.apache.zookeeper.server.auth.DigestLoginModule required username=".." '
        'password="..";',
    ),
    setting(
        "klamm.controller.standby.enable",
        Kind.BOOLEAN,
        "true",
        "Whether a broker that is not the controller keeps topics and partition states at hand, so "
        "that it need not read all of them when it becomes one. Where the store is in the same "
        "process they are at hand anyway.",
    ),
    setting(
        "klamm.metrics.port",
        Kind.INT,
        "-1",
        "The port that serves Prometheus metrics; 0 takes a free one, -1 serves none. "
        "Needs `klamm[metrics]`.",
        Between(-1, 65535),
    ),
    setting(
        "klamm.internal.requests.from",
        Kind.LIST,
        "proof",
        "Who may make the requests that are for brokers only: those who prove that they are of "
        "this cluster. Brokers of Apache Kafka cannot prove it; where some serve in the cluster, "
        "their listener (`listener:NAME`) or addresses are named here as well.",
        InternalPeers(),
    ),
    setting(
        "klamm.authentication.timeout.ms",
        Kind.INT,
        "30000",
        "How long a connection may take to say who it is: for the handshake of TLS, and then for "
        "its login.",
        AtLeast(100),
        _WIDE,
    ),
    setting(
        "klamm.authentication.pending.max",
        Kind.INT,
        "1000",
        "How many connections of a broker may be in their handshake or login at a time. When there "
        "are more, the oldest of the address with the most is closed.",
        AtLeast(1),
        _WIDE,
    ),
    setting(
        "klamm.authentication.pending.max.per.ip",
        Kind.INT,
        "200",
        "How many of them one address may have.",
        AtLeast(1),
        _WIDE,
    ),
    setting(
        "klamm.allow.unsecured.oauth",
        Kind.BOOLEAN,
        "false",
        "Whether a listener with OAUTHBEARER may take tokens that nobody signed, as Kafka's does "
        "where no validator is named. For tests only: everybody is whoever they say.",
    ),
    setting(
        "klamm.allow.plain.without.tls",
        Kind.BOOLEAN,
        "true",
        "Whether a listener without TLS may offer PLAIN, as in Kafka. With false such a broker "
        "does not start: passwords could be read on the network.",
    ),
    setting(
        "klamm.revoked.logins.close",
        Kind.BOOLEAN,
        "false",
        "Whether a connection is closed at its next request once the SCRAM credential of its user, "
        "or the delegation token it logged in with, is removed. In Kafka it goes on.",
        None,
        _WIDE,
    ),
    setting(
        "klamm.delegation.token.hide.hmac",
        Kind.BOOLEAN,
        "false",
        "Whether a delegation token's HMAC, which is its password, is told to its owner and its "
        "renewers only. In Kafka everybody who may describe a token is told it.",
        None,
        _WIDE,
    ),
    setting(
        "klamm.ssl.crl.location",
        Kind.STRING,
        "",
        "A PEM file with certificate revocation lists of the authorities that clients' "
        "certificates come from. A certificate on it, or of an authority without a list that "
        "holds, is refused. Read again when it changes.",
    ),
    setting(
        "klamm.placement.seed",
        Kind.LONG,
        "-1",
        "A number from 0 makes the placement of new topics the same in every run; -1 leaves it to "
        "chance.",
        AtLeast(-1),
    ),
    setting(
        "klamm.placement.mixed.racks",
        Kind.STRING,
        "fail",
        "What happens to a new topic when only some brokers have a rack: fail with Kafka's "
        "UNKNOWN_SERVER_ERROR, refuse with INVALID_REQUEST, or ignore the racks.",
        OneOf(("fail", "refuse", "ignore")),
        _WIDE,
    ),
    setting(
        "klamm.placement.strict.assignment",
        Kind.BOOLEAN,
        "true",
        "Whether a new topic with its own assignment may name only brokers that are registered or "
        "have replicas already, and must number its partitions from 0 without a gap. Kafka takes "
        "any broker, and looks only at the sum of the numbers.",
        None,
        _WIDE,
    ),
    setting(
        "klamm.expansion.placement",
        Kind.STRING,
        "kafka",
        "Where leaders of added partitions go: kafka starts behind the first replica of partition "
        "0 every time; even starts at the broker that leads the fewest partitions of the topic.",
        OneOf(("kafka", "even")),
        _WIDE,
    ),
    setting(
        "klamm.expansion.of.compacted.topics",
        Kind.BOOLEAN,
        "true",
        "Whether a compacted topic can get more partitions. That changes which partition a key "
        "belongs to, so old and new values of a key no longer meet.",
        None,
        _WIDE,
    ),
    setting(
        "klamm.auto.create.prefixes",
        Kind.LIST,
        "",
        "Only topics whose name begins with one of these are created automatically; empty "
        "allows every name.",
        None,
        _WIDE,
    ),
    setting(
        "klamm.auto.create.quarantine.ms",
        Kind.LONG,
        "0",
        "For how long after its deletion a topic is not created again automatically.",
        _FROM_0,
        _WIDE,
    ),
    setting(
        "klamm.delete.topic.policy",
        Kind.CLASS,
        None,
        "A Python callable package.module:name that may refuse the deletion of a topic.",
    ),
    setting(
        "klamm.delete.topic.wait.for.completion",
        Kind.BOOLEAN,
        "false",
        "Whether DeleteTopics answers only when every replica and every node of the topic is gone, "
        "instead of when clients no longer see it.",
        None,
        _WIDE,
    ),
    setting(
        "klamm.delete.topic.retry.ms",
        Kind.LONG,
        "30000",
        "How often a halted deletion, a partition without a leader, an order that a broker refused "
        "and a copy left behind are tried again; 0 for Kafka's way, which waits for a broker to "
        "restart.",
        _FROM_0,
        _WIDE,
    ),
    setting(
        "klamm.kept.check.interval.ms",
        Kind.LONG,
        "30000",
        "How often the controller looks for topics whose klamm.kept.until.ms is over.",
        AtLeast(100),
        _WIDE,
    ),
    setting(
        "klamm.delete.topic.cancel.enable",
        Kind.BOOLEAN,
        "false",
        "Whether a deletion can be cancelled until the first replica is told to delete its log. "
        "While this is on, a deletion that a broker's absence would halt half way does not begin: "
        "the topic stays whole until every replica can be deleted.",
        None,
        _WIDE,
    ),
    setting(
        "klamm.delete.topic.keep.offsets",
        Kind.BOOLEAN,
        "false",
        "Whether the committed offsets of a topic stay until its deletion is complete.",
        None,
        _WIDE,
    ),
    setting(
        "klamm.reconcile.interval.ms",
        Kind.LONG,
        "60000",
        "How often the controller compares the store with what it knows; 0 for never.",
        _FROM_0,
        _WIDE,
    ),
    setting(
        "klamm.ledger.topic.enable",
        Kind.BOOLEAN,
        "false",
        "Whether the transitions that controllers write down are also a topic, __klamm_ledger, for "
        "everybody to read. It begins with everything that brokers still have on their disks. "
        "`klamm up` switches it on.",
        None,
        _WIDE,
    ),
    setting(
        "klamm.ledger.topic.replication.factor",
        Kind.SHORT,
        "3",
        "The replicas of __klamm_ledger; while there are fewer brokers it waits.",
        AtLeast(1),
    ),
    setting(
        "klamm.ledger.topic.history.ms",
        Kind.LONG,
        "604800000",
        "For how long __klamm_ledger keeps every transition. Of what is older, compaction leaves "
        "the last state of each thing that is still there. Read when the topic is created.",
        _FROM_0,
    ),
    setting(
        "klamm.vanished.topic.delete.logs",
        Kind.BOOLEAN,
        "false",
        "Whether brokers delete their logs of a topic whose nodes were removed from the store by "
        "hand.",
        None,
        _WIDE,
    ),
    setting(
        "klamm.reassignment.strict",
        Kind.BOOLEAN,
        "false",
        "Whether moves asked for through the node /admin/reassign_partitions obey the rules of the "
        "API; otherwise, as in Kafka, a move to a broker that is down waits for it.",
    ),
    setting(
        "klamm.fence.unreachable.ms",
        Kind.LONG,
        "0",
        "A broker that the store counts as alive but that has not answered a request of the "
        "controller for this long is treated as dead until it does; 0 for never, as in Kafka, "
        "where it leads on with what it was last told.",
        _FROM_0,
        _WIDE,
    ),
    setting(
        "klamm.election.remember.disk",
        Kind.BOOLEAN,
        "false",
        "Whether a broker whose disk is empty, or has lost records, says so instead of leading "
        "with what is left: where it was the last in-sync replica, the partition waits for its "
        "old disk or an unclean election. In Kafka it leads, and the others truncate their logs.",
        None,
        _WIDE,
    ),
    setting(
        "klamm.batch.expanded.bytes.max",
        Kind.INT,
        "33554432",
        "How many bytes the records of one compressed batch may take when they are unpacked; a "
        "batch above that is refused with MESSAGE_TOO_LARGE, unless max.message.bytes of its topic "
        "is larger still. Kafka has no such bound.",
        AtLeast(1 << 20),
    ),
    setting(
        "klamm.batch.records.by.hand.max",
        Kind.INT,
        "16",
        "Where the compiled loops over records were not built (`klamm doctor` says so), the first "
        "and the last record of a batch are opened before it is appended, and of so many between "
        "them the lengths are followed; of up to three records, and in topics that ask for keys or "
        "times, each is opened. With the compiled loops each record always is.",
        AtLeast(0),
    ),
    setting(
        "klamm.leader.rebalance.batch",
        Kind.INT,
        "500",
        "How many leaders at most go back to their preferred broker in one round.",
        AtLeast(1),
        _WIDE,
    ),
    setting(
        "klamm.request.max.bytes",
        Kind.INT,
        "16777216",
        "The largest request that carries no records and is not from a broker. A longer one is "
        "refused with its first bytes and the connection closed. A request that names 20,000 "
        "topics and 200,000 partitions has half of it.",
        AtLeast(65_536),
    ),
    setting(
        "klamm.request.max.items",
        Kind.INT,
        "250000",
        "How many elements the lists of a request may have together: topics, partitions, names; "
        "four plain numbers count as one. A request with more is not read to its end and the "
        "connection closed. Requests of brokers may have four times as many.",
        AtLeast(1_000),
    ),
    setting(
        "klamm.private.request.max.bytes",
        Kind.INT,
        "4194304",
        "The largest request for one of klamm's own APIs, such as `klamm topics explain` uses.",
        AtLeast(65_536),
    ),
    setting(
        "klamm.request.memory.max.bytes",
        Kind.LONG,
        "50331648",
        "How much memory the requests on their way to the brokers of a process may take on all "
        "connections together. When it is used up, connections with large requests wait, one at a "
        "time goes on, and those that take too long are closed.",
        AtLeast(1_048_576),
    ),
    setting(
        "klamm.coordinator.memory.max.bytes",
        Kind.LONG,
        "33554432",
        "About how much memory groups, their offsets and transactional ids may take at a broker. "
        "When it is used up, what is there is served on, and new ones are answered with "
        "COORDINATOR_NOT_AVAILABLE, which clients try again.",
        AtLeast(1_048_576),
    ),
    setting(
        "klamm.producer.ids.max",
        Kind.INT,
        "100000",
        "How many producers the logs of a broker remember together. Beyond it the log with the "
        "most forgets those that have been silent longest, before `producer.id.expiration.ms`: "
        "they write on, but a batch that they send again is written again.",
        AtLeast(1_000),
    ),
    setting(
        "klamm.group.members.max",
        Kind.INT,
        "5000",
        "The most members of a group, whatever `group.max.size` and `group.consumer.max.size` say: "
        "what a rebalance costs everybody else grows with their number.",
        AtLeast(1),
    ),
)
