"""Names of files and directories, in Kafka's layout."""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection
from typing import Final

from klamm.model.names import (
    DIRECTORY_NAME_LENGTH_MAX,
    TopicPartition,
    id_text,
    partition_fault,
)

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TRANSACTION_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"

# Suffixes on top of a file's name: removed after a delay; written by the cleaner; about to
# replace what it was made from.
DELETED: Final = ".deleted"
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
# Behind a hole that was found in the log: kept for an operator to look at, and never read.
LOST: Final = ".lost"

# Suffixes of directories.
DOOMED: Final = "-delete"
FUTURE: Final = "-future"
STRAY: Final = "-stray"

EPOCHS: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
META_PROPERTIES: Final = "meta.properties"
LOCK: Final = ".lock"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
# Ours alone; Kafka looks at none of them.
EXTENTS: Final = "klamm-extent-checkpoint"
MISSING: Final = "klamm-missing-offset-checkpoint"
REGISTER: Final = "klamm-paper-logs"

OFFSET_MAX: Final = (1 << 63) - 1
_PARTITION: Final = re.compile(r"(.+)-(0|[1-9][0-9]*)\Z")
_FUTURE: Final = re.compile(r"(.+)-(0|[1-9][0-9]*)\.[0-9a-f]{32}-future\Z")
_ASIDE: Final = re.compile(r"(.+)\.[0-9a-f]{32}(-delete|-stray)\Z")
_OFFSET_FILE: Final = re.compile(r"([0-9]{20})(\.[a-z]+)((?:\.[a-z]+)*)\Z")


def between_names(topic_id: uuid.UUID | None, partition: int) -> TopicPartition:
    """The name of a log between two names: it can be no other log's."""
    return TopicPartition(f"klamm-renamed.{id_text(topic_id or uuid.uuid4())}", partition)


def offset_name(offset: int, kind: str) -> str:
    """The name of the file of one kind that starts at an offset."""
    return f"{offset:020d}{kind}"


def parse_offset_name(name: str) -> tuple[int, str, str] | None:
    """(offset, kind, further suffixes) of a segment's or a snapshot's file."""
    match = _OFFSET_FILE.match(name)
    return (int(match[1]), match[2], match[3]) if match else None


def parse_partition(name: str) -> TopicPartition | None:
    """The partition whose directory has this name, or None when it is no such directory."""
    return _partition(_PARTITION.match(name))


def parse_future(name: str) -> TopicPartition | None:
    """The partition whose log is moved to the directory of this name, or None."""
    return _partition(_FUTURE.match(name))


def _partition(match: re.Match[str] | None) -> TopicPartition | None:
    if match is None:
        return None
    partition = TopicPartition(match[1], int(match[2]))
    return None if partition_fault(partition) else partition


def parse_aside(name: str) -> str | None:
    """The former name of a directory that was set aside, or None if it is not one."""
    match = _ASIDE.match(name)
    return match[1] if match else None


def is_doomed(name: str) -> bool:
    """Whether a directory of this name is to be deleted."""
    return name.endswith(DOOMED) and parse_aside(name) is not None


def is_log(files: Collection[str]) -> bool:
    """Whether a directory of these files is a log: it says whose it is, or has nothing else in it.

    One with nothing at all is a log whose making a crash has interrupted.
    """
    return PARTITION_METADATA in files or all(map(is_of_a_log, files))


def is_of_a_log(name: str) -> bool:
    """Whether a file of this name in a partition's directory is the log's."""
    stem = name.removesuffix(".tmp")
    return stem in (EPOCHS, PARTITION_METADATA) or parse_offset_name(stem) is not None


def aside_name(partition: TopicPartition, suffix: str) -> str:
    """A new name for a partition's directory that is set aside; cut to what file systems allow."""
    unique = f".{uuid.uuid4().hex}{suffix}"
    return str(partition)[: DIRECTORY_NAME_LENGTH_MAX - len(unique)] + unique
