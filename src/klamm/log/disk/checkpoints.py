"""The small text files: checkpoints, identities, markers.

All are written whole and put in place by a rename. A checkpoint that cannot be read is as good as
none for the log (it then looks at more of its records), so only the identity of a directory is
worth stopping for.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from klamm.log.disk import names
from klamm.log.disk.files import read_file, replace_file, sync_directory, write_file
from klamm.log.disk.filesystem import Replace
from klamm.model.errors import UsageError
from klamm.model.names import TopicPartition, id_from_text, id_text

_VERSION: Final = "0"


class CheckpointCorrupt(Exception):
    """A checkpoint file does not hold what its format asks for."""


def _write_lines(path: str, lines: Sequence[str], replace: Replace = replace_file) -> None:
    text = "\n".join([_VERSION, str(len(lines)), *lines]) + "\n"
    replace(path, text.encode())


def _read_lines(path: str) -> list[str]:
    content = read_file(path)
    if not content:
        return []
    try:
        lines = content.decode().split("\n")
    except UnicodeDecodeError as error:
        raise CheckpointCorrupt(f"{path} is not text") from error
    if lines[0] != _VERSION:
        raise CheckpointCorrupt(f"{path} has version {lines[0]!r}")
    entries = lines[2:-1] if lines[-1] == "" else lines[2:]
    if len(lines) < 2 or lines[1] != str(len(entries)):
        raise CheckpointCorrupt(f"{path} does not have the entries it announces")
    return entries


def write_offsets(path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """One of the four files with an offset for each partition of a directory."""
    _write_lines(path, [f"{topic} {place} {at}" for (topic, place), at in offsets.items()])
    sync_directory(os.path.dirname(path))


def read_offsets(path: str) -> dict[TopicPartition, int]:
    """The inverse of `write_offsets`; a missing file is an empty one."""
    offsets: dict[TopicPartition, int] = {}
    for line in _read_lines(path):
        try:
            topic, partition, offset = line.split(" ")
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError as error:
            raise CheckpointCorrupt(f"{path} has the line {line!r}") from error
    return offsets


def write_epochs(
    path: str, epochs: Iterable[tuple[int, int]], replace: Replace = replace_file
) -> None:
    """A log's leader epochs with their first offsets; the directory is the caller's to sync."""
    _write_lines(path, [f"{epoch} {start}" for epoch, start in epochs], replace)


def read_epochs(path: str) -> list[tuple[int, int]]:
    """The inverse of `write_epochs`; epochs and offsets must rise."""
    epochs: list[tuple[int, int]] = []
    for line in _read_lines(path):
        try:
            epoch, start = map(int, line.split(" "))
        except ValueError as error:
            raise CheckpointCorrupt(f"{path} has the line {line!r}") from error
        if epochs and (epoch <= epochs[-1][0] or start <= epochs[-1][1]):
            raise CheckpointCorrupt(f"{path} goes backwards at epoch {epoch}")
        epochs.append((epoch, start))
    return epochs


def write_topic_id(path: str, topic_id: uuid.UUID) -> None:
    """partition.metadata: whose records these are. Bringing it to the disk is the caller's."""
    write_file(path, _topic_id_content(topic_id))


def write_topic_id_in(directory: int, topic_id: uuid.UUID) -> None:
    """The same in a directory that is open, whatever it is called by now."""
    write_file(names.PARTITION_METADATA, _topic_id_content(topic_id), directory=directory)


def _topic_id_content(topic_id: uuid.UUID) -> bytes:
    return f"version: 0\ntopic_id: {id_text(topic_id)}".encode()


def read_topic_id(path: str) -> uuid.UUID | None:
    """The topic id in partition.metadata; None when there is none that makes sense."""
    content = read_file(path)
    if content is None:
        return None
    try:
        fields = dict(line.partition(": ")[::2] for line in content.decode().split("\n"))
        return id_from_text(fields["topic_id"])
    except (KeyError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class DirectoryIdentity:
    """meta.properties: whose directory this is."""

    broker_id: int
    cluster_id: str
    directory_id: str


def write_identity(path: str, identity: DirectoryIdentity) -> None:
    lines = [
        f"broker.id={identity.broker_id}",
        f"cluster.id={identity.cluster_id}",
        f"directory.id={identity.directory_id}",
        "version=0",
    ]
    replace_file(path, ("\n".join(lines) + "\n").encode())
    sync_directory(os.path.dirname(path))


def read_identity(path: str) -> DirectoryIdentity | None:
    """Whose directory this is; None when nobody's yet."""
    content = read_file(path)
    if content is None:
        return None
    try:
        lines = [line.strip() for line in content.decode().splitlines()]
        fields = dict(line.partition("=")[::2] for line in lines if line and line[0] != "#")
        broker_id = int(fields.get("broker.id") or fields["node.id"])
        return DirectoryIdentity(broker_id, fields["cluster.id"], fields.get("directory.id", ""))
    except (KeyError, ValueError) as error:
        raise UsageError(
            f"{path} does not say which broker the directory belongs to: put the file back as it "
            "was, or use an empty directory (log.dirs)"
        ) from error


def new_directory_id() -> str:
    return id_text(uuid.uuid4())


class CleanStop(NamedTuple):
    """A stop that left nothing to recover."""

    broker_epoch: int | None  # of the broker that stopped, where the marker has it


def write_clean_shutdown(path: str, broker_epoch: int) -> None:
    """Say that everything below this directory is flushed and closed."""
    content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    replace_file(path, content.encode())
    sync_directory(os.path.dirname(path))


def take_clean_shutdown(path: str) -> CleanStop | None:
    """The record of the last clean stop, if there was one; reading it removes it.

    For good: a marker that a loss of power brings back would vouch for what is written from now on.
    """
    content = read_file(path)
    if content is None:
        return None
    os.unlink(path)
    sync_directory(os.path.dirname(path))
    try:
        return CleanStop(int(json.loads(content)["brokerEpoch"]))
    except (ValueError, KeyError, TypeError):
        return CleanStop(None)


# The base offsets and sizes of a log's files with records, in their order.
Extent = tuple[tuple[int, int], ...]


def write_extents(path: str, broker_epoch: int, extents: Mapping[TopicPartition, Extent]) -> None:
    """Writes the files and sizes of each log at a clean stop, known by the broker's epoch."""
    lines = [
        " ".join([topic, str(place), *(f"{base}:{size}" for base, size in extent)])
        for (topic, place), extent in extents.items()
    ]
    _write_lines(path, [f"stopped {broker_epoch}", *lines])


def read_extents(path: str, stop: CleanStop) -> dict[TopicPartition, Extent]:
    """The extents that `write_extents` wrote at this stop; nothing if they are of another one."""
    lines = _read_lines(path)
    if not lines or lines[0] != f"stopped {stop.broker_epoch}":
        return {}
    extents: dict[TopicPartition, Extent] = {}
    for line in lines[1:]:
        try:
            topic, partition, *files = line.split(" ")
            pairs = [file.split(":") for file in files]
            extent = tuple((int(base), int(size)) for base, size in pairs)
            extents[TopicPartition(topic, int(partition))] = extent
        except ValueError as error:
            raise CheckpointCorrupt(f"{path} has the line {line!r}") from error
    return extents
