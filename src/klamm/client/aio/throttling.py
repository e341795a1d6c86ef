"""Limits how fast replicas are copied while they move, as Kafka's reassignment tool does.

Brokers have a rate for each direction; topics name the replicas that it counts for: the old ones
send, the new ones receive.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Final

from klamm.client.aio.admin import Admin, ConfigResource
from klamm.client.errors import refuse
from klamm.client.requests import ConfigChange
from klamm.model.alterations import ConfigResourceType, SettingOperation
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_SENDERS: Final = "leader.replication.throttled.replicas"
_RECEIVERS: Final = "follower.replication.throttled.replicas"
# The sources of settings, in DescribeConfigs.
_TOPIC_OVERRIDE: Final = 1
BROKER_OVERRIDE: Final = 2


async def limit(
    admin: Admin, targets: Mapping[TopicPartition, Sequence[int] | None], rate: int
) -> None:
    """Set the limit for all brokers that send or receive a replica of these moves."""
    involved: set[int] = set()
    senders: dict[str, list[str]] = defaultdict(list)
    receivers: dict[str, list[str]] = defaultdict(list)
    for name, index, replicas in await _replicas(admin, {tp.topic for tp in targets}):
        new = set(targets.get(TopicPartition(name, index)) or ()).difference(replicas)
        if not new:
            continue
        involved |= {*replicas, *new}
        senders[name] += [f"{index}:{b}" for b in replicas]
        receivers[name] += [f"{index}:{b}" for b in sorted(new)]
    for name, sending in senders.items():
        lists = {_SENDERS: ",".join(sending), _RECEIVERS: ",".join(receivers[name])}
        await _change(admin, ConfigResource(ConfigResourceType.TOPIC, name), lists, ())
    rates = dict.fromkeys(RATES, str(rate))
    for broker in sorted(involved & await _live(admin)):
        await _change(admin, _broker(broker), rates, ())


async def lift(admin: Admin) -> tuple[list[int], list[str]]:
    """Remove every limit; the brokers and topics that had one."""
    brokers = {str(broker): broker for broker in sorted(await _live(admin))}
    limited = [
        brokers[name]
        async for name in _with(admin, ConfigResourceType.BROKER, list(brokers), BROKER_OVERRIDE)
    ]
    for broker in limited:
        await _change(admin, _broker(broker), {}, RATES)
    names = sorted(await admin.topics())
    listed = [name async for name in _with(admin, ConfigResourceType.TOPIC, names, _TOPIC_OVERRIDE)]
    for name in listed:
        topic = ConfigResource(ConfigResourceType.TOPIC, name)
        await _change(admin, topic, {}, (_SENDERS, _RECEIVERS))
    return limited, listed


async def _with(
    admin: Admin, kind: ConfigResourceType, names: list[str], source: int
) -> AsyncIterator[str]:
    """Those of these resources that have a limit of their own."""
    if not names:
        return
    for result in await admin.describe_configs([ConfigResource(kind, name) for name in names]):
        about = f"{kind.name.lower()} {result.resource_name!r}"
        refuse(result.error_code, about, result.error_message)
        own = {setting.name for setting in result.configs if setting.config_source == source}
        if own.intersection((*RATES, _SENDERS, _RECEIVERS)):
            yield result.resource_name


async def _replicas(admin: Admin, names: set[str]) -> list[tuple[str, int, list[int]]]:
    """Every partition of these topics, and where it is; raises for one that does not exist."""
    if not names:
        return []
    found = await admin.topics(sorted(names))
    for name in sorted(names):
        code = found[name].error_code if name in found else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        refuse(code, f"topic {name!r}")
    return [
        (name, partition.partition_index, list(partition.replica_nodes))
        for name in sorted(names)
        for partition in found[name].partitions
    ]


async def _live(admin: Admin) -> frozenset[int]:
    return frozenset((await admin.client.refresh([])).nodes)


async def _change(
    admin: Admin, resource: ConfigResource, configs: Mapping[str, str], unset: Iterable[str]
) -> None:
    changes = [ConfigChange(SettingOperation.SET, name, value) for name, value in configs.items()]
    changes += [ConfigChange(SettingOperation.DELETE, name) for name in unset]
    for result in await admin.change_configs({resource: changes}):
        about = f"{ConfigResourceType(resource.type).name.lower()} {resource.name!r}"
        refuse(result.error_code, about, result.error_message)


def _broker(broker: int) -> ConfigResource:
    return ConfigResource(ConfigResourceType.BROKER, str(broker))
