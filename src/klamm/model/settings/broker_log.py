"""Broker settings about logs: the defaults of topic settings, and the upkeep of logs."""

from __future__ import annotations

from typing import Final

from klamm.model.settings.definition import LONG_MAX, AtLeast, Definition, Dynamic, Kind, setting
from klamm.model.settings.topic import TOPIC_SETTINGS

_WIDE: Final = Dynamic.CLUSTER_WIDE
_FOREVER: Final = str(LONG_MAX)
_FROM_0: Final = AtLeast(0)
_FROM_1: Final = AtLeast(1)

# Defaults that are not simply those of a topic setting, because several broker settings give one
# topic setting its default, in different units.
_IN_OTHER_UNITS: Final[tuple[Definition, ...]] = (
    setting("log.flush.interval.ms", Kind.LONG, None, "Default of flush.ms.", _FROM_0, _WIDE),
    setting("log.retention.ms", Kind.LONG, None, "Default of retention.ms.", AtLeast(-1), _WIDE),
    setting(
        "log.retention.minutes", Kind.INT, None, "Counts without log.retention.ms.", AtLeast(-1)
    ),
    setting(
        "log.retention.hours", Kind.INT, "168", "Counts without .ms and .minutes.", AtLeast(-1)
    ),
    setting("log.roll.ms", Kind.LONG, None, "Default of segment.ms.", _FROM_1, _WIDE),
    setting("log.roll.hours", Kind.INT, "168", "Counts without log.roll.ms.", _FROM_1),
    setting("log.roll.jitter.ms", Kind.LONG, None, "Default of segment.jitter.ms.", _FROM_0, _WIDE),
    setting("log.roll.jitter.hours", Kind.INT, "0", "Counts without log.roll.jitter.ms.", _FROM_0),
)


def _default_of(topic: Definition) -> Definition:
    return Definition(
        name=topic.synonyms[0].name,
        kind=topic.kind,
        default=topic.default,
        doc=f"Default of the topic setting {topic.name}.",
        valid=topic.valid,
        dynamic=Dynamic.READ_ONLY if topic.name == "message.format.version" else _WIDE,
        no_effect=topic.no_effect,
    )


TOPIC_DEFAULTS: Final[tuple[Definition, ...]] = (
    *(_default_of(topic) for topic in TOPIC_SETTINGS.values() if len(topic.synonyms) == 1),
    *_IN_OTHER_UNITS,
)

LOG_SETTINGS: Final[tuple[Definition, ...]] = (
    setting("log.dir", Kind.STRING, "/tmp/kafka-logs", "The directory of this broker's logs."),
    setting(
        "log.dirs",
        Kind.STRING,
        None,
        "As log.dir, before which it comes; several, below each broker's own, with commas between.",
    ),
    setting(
        "log.retention.check.interval.ms",
        Kind.LONG,
        "300000",
        "How often old segments are looked for.",
        _FROM_1,
    ),
    setting(
        "log.flush.scheduler.interval.ms",
        Kind.LONG,
        _FOREVER,
        "How often logs due for a flush are looked for.",
    ),
    setting(
        "log.flush.offset.checkpoint.interval.ms",
        Kind.INT,
        "60000",
        "How often it is noted down how far logs are flushed.",
        _FROM_0,
    ),
    setting(
        "replica.high.watermark.checkpoint.interval.ms",
        Kind.LONG,
        "5000",
        "How often high watermarks are noted down.",
    ),
    setting(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        Kind.LONG,
        _FOREVER,
        "Bytes a second that logs move with from one directory of a broker to another.",
        _FROM_1,
        _WIDE,
    ),
    setting(
        "num.replica.alter.log.dirs.threads",
        Kind.INT,
        None,
        "How many logs move from one directory of a broker to another at a time; "
        "where it is not set, as many as there are directories.",
        _FROM_1,
    ),
    setting(
        "alter.log.dirs.replication.quota.window.num",
        Kind.INT,
        "11",
        "Over how many windows that is measured.",
        _FROM_1,
    ),
    setting(
        "alter.log.dirs.replication.quota.window.size.seconds",
        Kind.INT,
        "1",
        "How long one such window is.",
        _FROM_1,
    ),
    setting("log.cleaner.enable", Kind.BOOLEAN, "true", "Whether compacted topics are compacted."),
    setting(
        "log.cleaner.backoff.ms",
        Kind.LONG,
        "15000",
        "How long the cleaner rests when nothing is dirty.",
        _FROM_0,
        _WIDE,
    ),
    setting(
        "log.cleaner.dedupe.buffer.size",
        Kind.LONG,
        "134217728",
        "The memory for the keys of one compaction.",
        None,
        _WIDE,
    ),
    setting(
        "log.cleaner.io.max.bytes.per.second",
        Kind.DOUBLE,
        "1.7976931348623157E308",
        "Bytes a second that the cleaner reads and writes.",
        AtLeast(1),
        _WIDE,
    ),
    setting(
        "producer.id.expiration.ms",
        Kind.INT,
        "86400000",
        "When an idle producer id is forgotten.",
        _FROM_1,
        _WIDE,
    ),
    setting(
        "producer.id.expiration.check.interval.ms",
        Kind.INT,
        "600000",
        "How often idle producer ids are looked for.",
        _FROM_1,
    ),
)
