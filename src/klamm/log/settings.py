"""Settings of a topic, as its log uses them.

A log looks at a dozen settings on every append, so they are read once into plain attributes; a
changed topic gets a new `LogSettings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from klamm.model.settings import TopicSettings
from klamm.protocol.batch import Codec

LONG_MAX: Final = (1 << 63) - 1
_LZ4_LEVEL_DEFAULT: Final = 9

_CODECS: Final[Mapping[str, Codec | None]] = {
    "producer": None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """The settings of one topic that its log obeys; the defaults are Kafka's."""

    compact: bool = False
    delete: bool = True
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = _LZ4_LEVEL_DEFAULT
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    downconversion: bool = True  # for readers of before 0.11
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    frozen: bool = False  # klamm's own: clients may not write
    importing: bool = False  # klamm's own: filled with batches that have their offsets
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    log_append_time: bool = False
    timestamp_before_max_ms: int = LONG_MAX
    timestamp_after_max_ms: int = LONG_MAX
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    preallocate: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    # Of the broker, for all topics.
    expanded_bytes_max: int = 32 << 20  # of a compressed batch
    records_by_hand_max: int = 16  # whose lengths are followed without compiled loops

    @classmethod
    def of(cls, topic: TopicSettings) -> LogSettings:
        """Read them from a topic's effective settings."""
        policy = topic.list("cleanup.policy")
        return cls(
            compact="compact" in policy,
            delete="delete" in policy,
            compression_type=topic.str("compression.type"),
            compression_gzip_level=topic.int("compression.gzip.level"),
            compression_lz4_level=topic.int("compression.lz4.level"),
            compression_zstd_level=topic.int("compression.zstd.level"),
            delete_retention_ms=topic.int("delete.retention.ms"),
            downconversion=topic.bool("message.downconversion.enable"),
            file_delete_delay_ms=topic.int("file.delete.delay.ms"),
            flush_messages=topic.int("flush.messages"),
            flush_ms=topic.int("flush.ms"),
            frozen=topic.bool("klamm.frozen"),
            importing=topic.bool("klamm.importing"),
            index_interval_bytes=topic.int("index.interval.bytes"),
            max_compaction_lag_ms=topic.int("max.compaction.lag.ms"),
            max_message_bytes=topic.int("max.message.bytes"),
            log_append_time=topic.str("message.timestamp.type") == "LogAppendTime",
            timestamp_before_max_ms=_bound(topic, "message.timestamp.before.max.ms"),
            timestamp_after_max_ms=_bound(topic, "message.timestamp.after.max.ms"),
            min_cleanable_dirty_ratio=topic.float("min.cleanable.dirty.ratio"),
            min_compaction_lag_ms=topic.int("min.compaction.lag.ms"),
            preallocate=topic.bool("preallocate"),
            retention_bytes=topic.int("retention.bytes"),
            retention_ms=topic.int("retention.ms"),
            segment_bytes=topic.int("segment.bytes"),
            segment_index_bytes=topic.int("segment.index.bytes"),
            segment_jitter_ms=topic.int("segment.jitter.ms"),
            segment_ms=topic.int("segment.ms"),
            expanded_bytes_max=topic.broker.int("klamm.batch.expanded.bytes.max"),
            records_by_hand_max=topic.broker.int("klamm.batch.records.by.hand.max"),
        )

    # What follows from them, for those who ask on every append.
    checks_records: bool = field(init=False)  # a key to demand, a time to bound
    asks_nothing: bool = field(init=False)  # of a record: batches are written as they come
    is_closed: bool = field(init=False)  # to what clients write
    expanded_size_max: int = field(init=False)  # of the records of a batch
    size_max: int = field(init=False)  # of a batch
    roll_ms: int = field(init=False)  # only a closed segment is compacted
    codec: Codec | None = field(init=False)  # None: as the producer has it

    def __post_init__(self) -> None:
        bounds = (self.timestamp_before_max_ms, self.timestamp_after_max_ms)
        checks_records = self.compact or bounds != (LONG_MAX, LONG_MAX)
        object.__setattr__(self, "checks_records", checks_records)
        object.__setattr__(self, "size_max", min(self.max_message_bytes, self.segment_bytes))
        # What may come uncompressed may come compressed as well.
        expanded = max(self.expanded_bytes_max, self.max_message_bytes)
        object.__setattr__(self, "expanded_size_max", expanded)
        lag = self.max_compaction_lag_ms if self.compact else LONG_MAX
        object.__setattr__(self, "roll_ms", min(self.segment_ms, lag))
        object.__setattr__(self, "codec", _CODECS[self.compression_type])
        object.__setattr__(self, "is_closed", self.frozen or self.importing)
        asks_nothing = not checks_records and self.codec is None
        object.__setattr__(self, "asks_nothing", asks_nothing)

    @property
    def compression_level(self) -> int | None:
        """The compression level; None if the codec has none, or its own default."""
        match self.codec:
            case Codec.GZIP:
                return None if self.compression_gzip_level < 0 else self.compression_gzip_level
            case Codec.LZ4:
                # As Kafka: its default stands for the quick compressor, not for a level of 9.
                level = self.compression_lz4_level
                return None if level == _LZ4_LEVEL_DEFAULT else level
            case Codec.ZSTD:
                return self.compression_zstd_level
        return None


def _bound(topic: TopicSettings, name: str) -> int:
    """A bound of timestamps; the older name counts where the newer one says nothing."""
    bound = topic.int(name)
    return bound if bound != LONG_MAX else topic.int("message.timestamp.difference.max.ms")
