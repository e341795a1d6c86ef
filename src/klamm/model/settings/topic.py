"""Every setting of a topic, with the broker settings that give it its default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from klamm.model.settings.definition import (
    LONG_MAX,
    AtLeast,
    Between,
    Definition,
    Kind,
    OneOf,
    Rule,
    Synonym,
    ThrottledReplicas,
    by_name,
)
from klamm.model.settings.versions import KnownVersion

FROZEN: Final = "klamm.frozen"
IMPORTING: Final = "klamm.importing"
IMPORT_EPOCH: Final = "klamm.import.leader.epoch"
KEPT_UNTIL: Final = "klamm.kept.until.ms"
EPOCH_MAX: Final = (1 << 31) - (1 << 20)  # leaders that come later need room above it
CODECS: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_FOREVER: Final = str(LONG_MAX)
_TIERED: Final = "klamm keeps all records on its own disks: there is no remote storage"
_OLD_FORMATS: Final = "klamm stores record batches of format 2 only"


def is_true(text: str | None) -> bool:
    """Whether a setting's text says yes."""
    return text is not None and text.strip().lower() == "true"


def kept_until(own: Mapping[str, str]) -> int | None:
    """The time until which a topic is kept, by its own settings; None: for good."""
    text = own.get(KEPT_UNTIL, "").strip()
    return int(text) if text.isascii() and text.isdecimal() else None


def _topic(
    name: str,
    kind: Kind,
    default: str,
    doc: str,
    *synonyms: str | Synonym,
    valid: Rule | None = None,
    no_effect: str = "",
) -> Definition:
    return Definition(
        name=name,
        kind=kind,
        default=default,
        doc=doc,
        valid=valid,
        synonyms=tuple(Synonym(s) if isinstance(s, str) else s for s in synonyms),
        no_effect=no_effect,
    )


TOPIC_SETTINGS: Final[Mapping[str, Definition]] = by_name(
    (
        _topic(
            "cleanup.policy",
            Kind.LIST,
            "delete",
            "What happens to old records: delete by age and size, compact by key, or both.",
            "log.cleanup.policy",
            valid=OneOf(("compact", "delete")),
        ),
        _topic(
            "compression.type",
            Kind.STRING,
            "producer",
            "The codec records are stored in; producer keeps each batch as it came.",
            "compression.type",
            valid=OneOf(CODECS),
        ),
        _topic(
            "compression.gzip.level",
            Kind.INT,
            "-1",
            "How hard gzip works when a batch must be compressed again.",
            "compression.gzip.level",
            valid=Between(1, 9, also=-1),
        ),
        _topic(
            "compression.lz4.level",
            Kind.INT,
            "9",
            "How hard lz4 works when a batch must be compressed again.",
            "compression.lz4.level",
            valid=Between(1, 17),
        ),
        _topic(
            "compression.zstd.level",
            Kind.INT,
            "3",
            "How hard zstd works when a batch must be compressed again.",
            "compression.zstd.level",
            valid=Between(-131072, 22),
        ),
        _topic(
            "delete.retention.ms",
            Kind.LONG,
            "86400000",
            "How long the mark of a deleted key stays in a compacted topic.",
            "log.cleaner.delete.retention.ms",
            valid=AtLeast(0),
        ),
        _topic(
            "file.delete.delay.ms",
            Kind.LONG,
            "60000",
            "How long a file that is no longer needed stays on disk.",
            "log.segment.delete.delay.ms",
            valid=AtLeast(0),
        ),
        _topic(
            "flush.messages",
            Kind.LONG,
            _FOREVER,
            "Force the log to disk after this many records.",
            "log.flush.interval.messages",
            valid=AtLeast(1),
        ),
        _topic(
            "flush.ms",
            Kind.LONG,
            _FOREVER,
            "Force the log to disk after this time.",
            "log.flush.interval.ms",
            "log.flush.scheduler.interval.ms",
            valid=AtLeast(0),
        ),
        _topic(
            "follower.replication.throttled.replicas",
            Kind.LIST,
            "",
            "The replicas whose followers copy no faster than follower.replication.throttled.rate.",
            valid=ThrottledReplicas(),
        ),
        _topic(
            "leader.replication.throttled.replicas",
            Kind.LIST,
            "",
            "The replicas whose leaders serve followers no faster than "
            "leader.replication.throttled.rate.",
            valid=ThrottledReplicas(),
        ),
        _topic(
            "index.interval.bytes",
            Kind.INT,
            "4096",
            "How many bytes of records lie between two entries of the offset index.",
            "log.index.interval.bytes",
            valid=AtLeast(0),
        ),
        _topic(
            "local.retention.bytes",
            Kind.LONG,
            "-2",
            "How many bytes stay on local disks when older records are kept remotely.",
            "log.local.retention.bytes",
            valid=AtLeast(-2),
            no_effect=_TIERED,
        ),
        _topic(
            "local.retention.ms",
            Kind.LONG,
            "-2",
            "How long records stay on local disks when older records are kept remotely.",
            "log.local.retention.ms",
            valid=AtLeast(-2),
            no_effect=_TIERED,
        ),
        _topic(
            FROZEN,
            Kind.BOOLEAN,
            "false",
            "Whether writes of clients are refused, as before a final archive. Reading goes on.",
        ),
        _topic(
            IMPORTING,
            Kind.BOOLEAN,
            "false",
            "Whether the topic is being filled with the batches of another log, offsets and all. "
            "Writes of clients are refused and nothing is removed until it ends. It can be set "
            "when a topic is created, and then only be taken away.",
        ),
        _topic(
            IMPORT_EPOCH,
            Kind.INT,
            "0",
            "The leader epoch that partitions begin with: above those of the batches that are "
            "imported.",
            valid=Between(0, EPOCH_MAX),
        ),
        _topic(
            KEPT_UNTIL,
            Kind.LONG,
            "-1",
            "The time, in milliseconds since 1970, at which the controller deletes the topic, "
            "provided that it is frozen: the old one of a re-partitioning is kept until then. -1: "
            "it is kept for good.",
            valid=AtLeast(-1),
        ),
        _topic(
            "max.compaction.lag.ms",
            Kind.LONG,
            _FOREVER,
            "The longest time a record may wait for compaction.",
            "log.cleaner.max.compaction.lag.ms",
            valid=AtLeast(1),
        ),
        _topic(
            "max.message.bytes",
            Kind.INT,
            "1048588",
            "The largest batch of records, after compression, that is accepted.",
            "message.max.bytes",
            valid=AtLeast(0),
        ),
        _topic(
            "message.downconversion.enable",
            Kind.BOOLEAN,
            "true",
            "Whether consumers from before 0.11 get records in their format; else refused.",
            "log.message.downconversion.enable",
        ),
        _topic(
            "message.format.version",
            Kind.STRING,
            "3.0-IV1",
            "Deprecated: the version whose record format is stored.",
            "log.message.format.version",
            valid=KnownVersion(),
            no_effect=_OLD_FORMATS,
        ),
        _topic(
            "message.timestamp.after.max.ms",
            Kind.LONG,
            _FOREVER,
            "How far the time of a record may lie after the broker's clock.",
            "log.message.timestamp.after.max.ms",
            valid=AtLeast(0),
        ),
        _topic(
            "message.timestamp.before.max.ms",
            Kind.LONG,
            _FOREVER,
            "How far the time of a record may lie before the broker's clock.",
            "log.message.timestamp.before.max.ms",
            valid=AtLeast(0),
        ),
        _topic(
            "message.timestamp.difference.max.ms",
            Kind.LONG,
            _FOREVER,
            "Deprecated: stands for message.timestamp.before.max.ms and .after.max.ms where those "
            "are not limited.",
            "log.message.timestamp.difference.max.ms",
            valid=AtLeast(0),
        ),
        _topic(
            "message.timestamp.type",
            Kind.STRING,
            "CreateTime",
            "Whose clock gives a record its time: the producer's or that of the leader.",
            "log.message.timestamp.type",
            valid=OneOf(("CreateTime", "LogAppendTime")),
        ),
        _topic(
            "min.cleanable.dirty.ratio",
            Kind.DOUBLE,
            "0.5",
            "The part of a compacted log that must be uncompacted before it is compacted again.",
            "log.cleaner.min.cleanable.ratio",
            valid=Between(0, 1),
        ),
        _topic(
            "min.compaction.lag.ms",
            Kind.LONG,
            "0",
            "The shortest time a record stays uncompacted.",
            "log.cleaner.min.compaction.lag.ms",
            valid=AtLeast(0),
        ),
        _topic(
            "min.insync.replicas",
            Kind.INT,
            "1",
            "How many replicas must be in sync for a write with acks=all.",
            "min.insync.replicas",
            valid=AtLeast(1),
        ),
        _topic(
            "preallocate",
            Kind.BOOLEAN,
            "false",
            "Whether a new segment file gets its full size at once.",
            "log.preallocate",
        ),
        _topic(
            "remote.storage.enable",
            Kind.BOOLEAN,
            "false",
            "Whether old records of the topic move to remote storage.",
            no_effect=_TIERED,
        ),
        _topic(
            "remote.log.copy.disable",
            Kind.BOOLEAN,
            "false",
            "Whether the copying to remote storage pauses.",
            no_effect=_TIERED,
        ),
        _topic(
            "remote.log.delete.on.disable",
            Kind.BOOLEAN,
            "false",
            "Whether switching remote storage off deletes what is there.",
            no_effect=_TIERED,
        ),
        _topic(
            "retention.bytes",
            Kind.LONG,
            "-1",
            "The size from which a partition drops its oldest segments; -1 for none.",
            "log.retention.bytes",
        ),
        _topic(
            "retention.ms",
            Kind.LONG,
            "604800000",
            "The age from which a segment is dropped; -1 for never.",
            "log.retention.ms",
            Synonym("log.retention.minutes", 60_000),
            Synonym("log.retention.hours", 3_600_000),
            valid=AtLeast(-1),
        ),
        _topic(
            "segment.bytes",
            Kind.INT,
            "1073741824",
            "The size at which a new segment begins.",
            "log.segment.bytes",
            valid=AtLeast(14),
        ),
        _topic(
            "segment.index.bytes",
            Kind.INT,
            "10485760",
            "The largest size of an index file.",
            "log.index.size.max.bytes",
            valid=AtLeast(4),
        ),
        _topic(
            "segment.jitter.ms",
            Kind.LONG,
            "0",
            "Up to how much earlier, by chance, a segment ends, so that not all end at once.",
            "log.roll.jitter.ms",
            Synonym("log.roll.jitter.hours", 3_600_000),
            valid=AtLeast(0),
        ),
        _topic(
            "segment.ms",
            Kind.LONG,
            "604800000",
            "The age at which a new segment begins even when the old one is not full.",
            "log.roll.ms",
            Synonym("log.roll.hours", 3_600_000),
            valid=AtLeast(1),
        ),
        _topic(
            "unclean.leader.election.enable",
            Kind.BOOLEAN,
            "false",
            "Whether a replica that is not in sync may lead when no other is left, losing records.",
            "unclean.leader.election.enable",
        ),
    )
)
