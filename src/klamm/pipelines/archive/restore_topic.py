"""The topic that a restore fills: whose it is, and what is put aside while it is being filled.

A restore makes its topic itself and remembers it in a journal beside the archive, so that one that
was broken off knows its own topic again, and no other one is ever written to. While it runs,
nothing may restamp, refuse or drop what is written: such settings are put aside and put back at the
end. The topic gets as many replicas as it had, or as many as there are brokers.
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from klamm.client.blocking.lookup import Lookup
from klamm.model.errors import KlammError, UsageError
from klamm.model.names import name_fault
from klamm.model.settings.topic import FROZEN, IMPORT_EPOCH, IMPORTING, KEPT_UNTIL
from klamm.pipelines.archive.layout import Manifest, path_name, read_part
from klamm.pipelines.jobs.writing import disk_fault, write_whole
from klamm.pipelines.places.remote import Place, RemotePath

_FOREVER: Final = str((1 << 63) - 1)
_WEEK_MS: Final = 7 * 24 * 3_600_000  # Kafka's default
_IN_SYNC: Final = "min.insync.replicas"
# What a topic was just going through is not restored.
_OF_THE_TIME: Final = frozenset({FROZEN, IMPORTING, IMPORT_EPOCH, KEPT_UNTIL})
# What would change, refuse or drop records while they are being written.
_ASIDE: Final[Mapping[str, str]] = {
    "message.timestamp.type": "CreateTime",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "cleanup.policy": "delete",
    # Records may be older than this limit, and in batches of another size than they came in.
    "max.message.bytes": str((1 << 31) - 1),
}
# The same, but not known to every cluster: only where they were set.
_ASIDE_IF_SET: Final[Mapping[str, str]] = {
    "message.timestamp.before.max.ms": _FOREVER,
    "message.timestamp.after.max.ms": _FOREVER,
    "message.timestamp.difference.max.ms": _FOREVER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Up to where an archive is restored: a time, or the first offset of partitions to leave."""

    time_ms: int | None = None
    offsets: Mapping[int, int] | None = None
    is_exact: bool = False  # with the offsets that records had; then all of it

    @property
    def told(self) -> dict[str, Any]:
        """As a journal has it."""
        exact = {"exact": True} if self.is_exact else {}
        return {
            "as_of_ms": self.time_ms,
            "offsets": self.offsets and {str(p): o for p, o in sorted(self.offsets.items())},
            **exact,
        }


def check_target(lookup: Lookup, manifest: Manifest, name: str, limit: Limit) -> RestoreJournal:
    """Checks a restore before anything is done; returns where it will keep its journal.

    Costs nothing, so that who mistyped a name need not wait for Spark.
    """
    if fault := name_fault(name):
        raise UsageError(fault)
    _check_limit(manifest, limit)
    cluster = path_name("cluster id", lookup.view([]).cluster_id)
    place = manifest.path / "restores" / cluster / name
    journal = RestoreJournal(place / "journal.json", limit)
    _own_topic(lookup, name, journal)
    return journal


def _check_limit(manifest: Manifest, limit: Limit) -> None:
    oldest = min((f.time_min for f in manifest.files if f.rows), default=None)
    if limit.time_ms is not None and oldest is not None and limit.time_ms < oldest:
        raise UsageError(
            f"the archive of {manifest.topic} has no record as old as {_when(limit.time_ms)}: "
            f"its first is of {_when(oldest)}"
        )
    for partition, offset in (limit.offsets or {}).items():
        entry = manifest.partitions.get(str(partition))
        if entry is None:
            raise UsageError(f"the archive of {manifest.topic} has no partition {partition}")
        if not entry.log_start <= offset <= entry.end:
            raise UsageError(
                f"the archive of {manifest.topic} has offsets {entry.log_start} to "
                f"{entry.end - 1} of partition {partition}, and {offset} is not among them"
            )


def _when(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")


class RestoreJournal:
    """The state that a restore needs to be resumed: the topic that is its own."""

    def __init__(self, path: Place, limit: Limit) -> None:
        self.path = path
        self._limit = limit

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keeps a second restore of the same topic away, until this one ends, however it ends."""
        if isinstance(self.path, RemotePath):
            yield  # a store has no locks: the topic itself tells a second restore
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = self.path.with_name(".restoring").open("ab")
        except OSError as fault:
            raise KlammError(disk_fault(fault, self.path)) from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise KlammError(
                    f"{self.path.parent.name} is being restored by somebody else"
                ) from None
            yield

    def read(self) -> dict[str, Any]:
        if not self.path.exists():
            return {}
        try:
            found = json.loads(self.path.read_text())
            state, _, told = found["state"], found["topic_id"], found["limit"]
        except (ValueError, KeyError, TypeError):
            raise KlammError(
                f"{self.path} is damaged: delete the half-filled topic and this file"
            ) from None
        if state != "complete" and told != self._limit.told:
            raise UsageError(
                f"{self.path} is of a restore with another --as-of or --exact: delete the "
                "half-filled topic and this file, or ask for the same"
            )
        return dict(found)

    def write(self, state: str, topic_id: str) -> None:
        body = {"state": state, "topic_id": topic_id, "limit": self._limit.told}
        write_whole(self.path, json.dumps(body))

    def close(self) -> None:
        self.write("complete", self.read()["topic_id"])


def _own_topic(lookup: Lookup, name: str, journal: RestoreJournal) -> str | None:
    """The topic that an unfinished restore has begun; that of somebody else is refused."""
    found, state = lookup.view([name]).topics.get(name), journal.read()
    if found is None:
        return None
    begun = state.get("state") in ("creating", "filling")
    if begun and state["topic_id"] == found.id:
        return found.id
    if begun and state["state"] == "creating" and not any(lookup.latest(found.partitions).values()):
        return found.id
    raise UsageError(f"there is a topic {name} already: choose another name with --to")


@dataclass(frozen=True, slots=True)
class Settings:
    """The topic's settings as the archive has them."""

    partitions: int
    replicas: int
    configs: Mapping[str, str]

    @property
    def batch_bytes(self) -> int | None:
        """The largest batch that the topic accepts, if that was set."""
        limits = [self.configs.get(name) for name in ("max.message.bytes", "segment.bytes")]
        return min((int(limit) for limit in limits if limit), default=None)


def settings_of(manifest: Manifest) -> Settings:
    """The topic's settings, from the file beside the data."""
    found = json.loads(read_part(manifest, manifest.settings))
    try:
        replicas = max((len(r) for r in found["assignments"].values()), default=-1)
        configs = {str(k): str(v) for k, v in found["configs"].items() if k not in _OF_THE_TIME}
        return Settings(int(found["partitions"]), replicas, configs)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise KlammError(f"{manifest.settings.path} of the archive makes no sense") from None


def open_topic(
    lookup: Lookup,
    name: str,
    kept: Settings,
    journal: RestoreJournal,
    importing: Mapping[str, str] | None = None,
) -> tuple[str, list[str]]:
    """The topic to fill: a new one, or the one that an unfinished restore has begun; and notes.

    One that is imported has its own settings from the beginning, and those that make it so.
    """
    topic_id = _own_topic(lookup, name, journal)
    brokers = len(lookup.view([]).brokers)
    replicas = min(kept.replicas, brokers)
    if topic_id is None:
        journal.write("creating", "")
        if importing is not None:
            aside = dict(importing)
        else:
            aside = {**_ASIDE, **{k: v for k, v in _ASIDE_IF_SET.items() if k in kept.configs}}
        if replicas < kept.replicas and _IN_SYNC in kept.configs:
            aside[_IN_SYNC] = "1"
        configs = {**kept.configs, **aside}
        lookup.create(name, kept.partitions, replicas=replicas, configs=configs)
        topic_id = lookup.view([name]).topics[name].id
    journal.write("filling", topic_id)
    if replicas == kept.replicas:
        return topic_id, []
    return topic_id, [
        f"{name} has {replicas} replicas instead of {kept.replicas}: there are {brokers} brokers"
    ]


def put_back(lookup: Lookup, name: str, kept: Settings, manifest: Manifest) -> list[str]:
    """The topic's own settings again; what would delete the records at once stays aside."""
    known = {k: v for k, v in kept.configs.items() if k in _ASIDE_IF_SET or k == _IN_SYNC}
    settings: dict[str, str | None] = {**{k: kept.configs.get(k) for k in _ASIDE}, **known}
    retention_ms = _expired_after_ms(lookup, name, kept, manifest)
    if retention_ms is None:
        lookup.alter(name, settings)
        return []
    del settings["retention.ms"]
    lookup.alter(name, settings)
    return [_kept_longer(name, retention_ms)]


def let_serve(lookup: Lookup, name: str, kept: Settings, manifest: Manifest) -> list[str]:
    """Ends an import: clients may write, and what is too old may go."""
    settings: dict[str, str | None] = {IMPORTING: None, IMPORT_EPOCH: None}
    if _IN_SYNC in kept.configs:
        settings[_IN_SYNC] = kept.configs[_IN_SYNC]
    retention_ms = _expired_after_ms(lookup, name, kept, manifest)
    if retention_ms is not None:
        settings["retention.ms"] = "-1"
    lookup.alter(name, settings)
    return [] if retention_ms is None else [_kept_longer(name, retention_ms)]


def _kept_longer(name: str, retention_ms: int) -> str:
    return (
        f"retention.ms of {name} stays -1, for the records are older than the "
        f"{retention_ms} ms it had"
    )


def _expired_after_ms(lookup: Lookup, name: str, kept: Settings, manifest: Manifest) -> int | None:
    """The retention that would delete archived records at once; None where it would not."""
    retention_ms = _retention_ms(lookup, name, kept.configs)
    oldest = min((f.time_min for f in manifest.files if f.time_min >= 0), default=None)
    is_expired = oldest is not None and 0 <= retention_ms < time.time() * 1000 - oldest
    return retention_ms if is_expired else None


_MS: Final[Mapping[str, int]] = {"ms": 1, "minutes": 60_000, "hours": 3_600_000}


def _retention_ms(lookup: Lookup, name: str, configs: Mapping[str, str]) -> int:
    """The retention of the topic, by its own settings or by the cluster's; -1: for ever."""
    policy = configs.get("cleanup.policy") or lookup.inherited(name, "cleanup.policy")[1]
    if policy and "delete" not in policy:
        return -1
    synonym, text = "retention.ms", configs.get("retention.ms", "")
    if not text:
        synonym, text = lookup.inherited(name, "retention.ms")
    kept = int(text or _WEEK_MS)
    return kept * _MS[synonym.rpartition(".")[2]] if kept >= 0 else -1
