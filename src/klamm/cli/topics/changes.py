"""Changes topics for `klamm topics` and the drop-in tools, and interprets the answers."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from klamm.cli.facts import (
    BROKER_OVERRIDE,
    CLUSTER_OVERRIDE,
    TOPIC_OVERRIDE,
    TopicFacts,
    describe_topics,
    list_topics,
    settings_of,
)
from klamm.cli.topics import waiting
from klamm.client.aio.admin import Admin, ConfigChange, ConfigResource
from klamm.client.errors import refuse
from klamm.model.alterations import ConfigResourceType, SettingOperation
from klamm.model.errors import ErrorCode, KlammError
from klamm.model.names import id_text
from klamm.protocol.messages import create_topics

# How long a deletion is waited for before it is asked whether it can go on at all.
_PATIENCE_MS: Final = 2_000


@dataclass(frozen=True, slots=True)
class TopicWish:
    """A topic to create; -1 leaves a number to the cluster."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    assignment: Sequence[tuple[int, ...]] | None = None

    def message(self) -> create_topics.CreatableTopic:
        manual = self.assignment
        return create_topics.CreatableTopic(
            self.name,
            -1 if manual is not None else self.partitions,
            -1 if manual is not None else self.replication_factor,
            [
                create_topics.CreatableReplicaAssignment(at, list(replicas))
                for at, replicas in enumerate(manual or ())
            ],
            [create_topics.CreatableTopicConfig(k, v) for k, v in self.configs.items()],
        )


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes to make to a topic."""

    partitions: int | None
    assignment: Sequence[tuple[int, ...]] | None
    configs: Mapping[str, str]
    unset: Sequence[str]

    @property
    def nothing(self) -> bool:
        return self.partitions is None and not self.configs and not self.unset


async def create(admin: Admin, new: TopicWish, dry_run: bool) -> dict[str, Any]:
    """Create a topic; what it has become."""
    (result,) = await admin.create_topics([new.message()], validate_only=dry_run)
    if result.error_code == ErrorCode.REQUEST_TIMED_OUT and result.error_message is None:
        late = f"it exists but has no leaders yet: see klamm topics explain {new.name}"
        result = replace(result, error_message=f"{ErrorCode.REQUEST_TIMED_OUT.name}: {late}")
    refuse(result.error_code, f"topic {new.name!r}", result.error_message)
    return {
        "name": result.name,
        "id": id_text(result.topic_id),
        "partitions": result.num_partitions,
        "replication_factor": result.replication_factor,
        "dry_run": dry_run,
    }


async def describe(admin: Admin, names: Sequence[str] | None) -> list[TopicFacts]:
    """The topics named, or all that are not internal."""
    if not names:
        names = [topic.name for topic in await list_topics(admin) if not topic.is_internal]
    return await describe_topics(admin, names)


async def alter(admin: Admin, name: str, changes: Changes, dry_run: bool) -> list[str]:
    """Settings first: they can be taken back, new partitions stay.

    Returns the settings that were to be removed and were not set.
    """
    never: list[str] = []
    topic = ConfigResource(ConfigResourceType.TOPIC, name)
    if changes.configs:
        await alter_settings(admin, topic, changes.configs, (), dry_run)
    if changes.unset:
        _, never = await unset_settings(admin, topic, changes.unset, dry_run)
    if changes.partitions is not None:
        await add_partitions(admin, name, changes.partitions, changes.assignment, dry_run)
    return never


async def add_partitions(
    admin: Admin,
    name: str,
    total: int,
    assignment: Sequence[tuple[int, ...]] | None,
    dry_run: bool = False,
) -> None:
    """Let a topic have `total` partitions; an assignment is for the new ones alone."""
    result = await admin.create_partitions(
        name, total, assignments=assignment, validate_only=dry_run
    )
    refuse(result.error_code, f"topic {name!r}", result.error_message)


async def alter_settings(
    admin: Admin,
    resource: ConfigResource,
    configs: Mapping[str, str],
    unset: Sequence[str],
    dry_run: bool = False,
) -> None:
    """Set and remove settings of a topic, a broker, or all brokers."""
    changes = [ConfigChange(SettingOperation.SET, name, value) for name, value in configs.items()]
    changes += [ConfigChange(SettingOperation.DELETE, name) for name in unset]
    for result in await admin.change_configs({resource: changes}, validate_only=dry_run):
        refuse(result.error_code, _about(resource), result.error_message)


async def unset_settings(
    admin: Admin, resource: ConfigResource, names: Sequence[str], dry_run: bool
) -> tuple[list[str], list[str]]:
    """Remove settings; those that were removed, and those that were not set."""
    if resource.type == ConfigResourceType.TOPIC:
        source = TOPIC_OVERRIDE
    else:
        source = BROKER_OVERRIDE if resource.name else CLUSTER_OVERRIDE
    own = {s.name for s in await settings_of(admin, resource) if s.config_source == source}
    there = [name for name in names if name in own]
    if there:
        await alter_settings(admin, resource, {}, there, dry_run)
    return there, [name for name in names if name not in own]


def _about(resource: ConfigResource) -> str:
    if not resource.name:
        return "all brokers"
    return f"{ConfigResourceType(resource.type).name.lower().replace('_', ' ')} {resource.name!r}"


async def delete(
    admin: Admin,
    names: Sequence[str],
    if_exists: bool,
    dry_run: bool,
    ids: Mapping[str, uuid.UUID] | None = None,
) -> list[str]:
    """Delete topics, by their ids where those are given; the names of those that are gone.

    A topic whose deletion is halted counts too: nothing here can hurry it along.
    """
    known = {topic.name for topic in await list_topics(admin)}
    hidden = {n: await waiting.standing(admin, n) for n in names if n not in known}
    for name, standing in hidden.items():
        if standing is waiting.TopicStanding.DOOMED:
            raise KlammError(
                f"topic {name!r} is being deleted already: see klamm topics explain {name}"
            )
        if standing is waiting.TopicStanding.ABSENT and not if_exists:
            refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r}", "it does not exist")
    wanted = [n for n in names if n in known or hidden[n] is waiting.TopicStanding.UNBORN]
    if dry_run or not wanted:
        return wanted
    doomed = [(ids or {}).get(name, name) for name in wanted]
    late = []
    for result in await admin.delete_topics(doomed, patience_ms=_PATIENCE_MS):
        if result.error_code == ErrorCode.REQUEST_TIMED_OUT and result.name:
            late.append(result.name)
        else:
            refuse(result.error_code, f"topic {result.name!r}", result.error_message)
    halted = {explanation["topic"] for explanation in await waiting.halted(admin, late)}
    if left := [name for name in late if name not in halted]:
        await waiting.until_hidden(admin, left)
    return wanted
