"""Limits how fast replicas are copied while they move, as Kafka's reassignment tool does.

Brokers have a rate for each direction; topics name the replicas that it counts for: the old ones
send, the new ones receive.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

from klamm.cli.facts import (
    BROKER_OVERRIDE,
    TOPIC_OVERRIDE,
    describe_settings,
    describe_topics,
    list_topics,
    live_brokers,
)
from klamm.cli.topics.changes import alter_settings
from klamm.client.aio.admin import Admin, ConfigResource
from klamm.model.alterations import ConfigResourceType
from klamm.model.names import TopicPartition

_RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_SENDERS: Final = "leader.replication.throttled.replicas"
_RECEIVERS: Final = "follower.replication.throttled.replicas"


async def limit(
    admin: Admin, targets: Mapping[TopicPartition, Sequence[int] | None], rate: int
) -> None:
    """Set the limit for all brokers that send or receive a replica of these moves."""
    involved: set[int] = set()
    senders: dict[str, list[str]] = defaultdict(list)
    receivers: dict[str, list[str]] = defaultdict(list)
    for topic in await describe_topics(admin, {tp.topic for tp in targets}):
        for partition in topic.partitions:
            target = targets.get(TopicPartition(topic.name, partition.index))
            new = set(target or ()).difference(partition.replicas)
            if not new:
                continue
            involved |= {*partition.replicas, *new}
            senders[topic.name] += [f"{partition.index}:{b}" for b in partition.replicas]
            receivers[topic.name] += [f"{partition.index}:{b}" for b in sorted(new)]
    for name, sending in senders.items():
        lists = {_SENDERS: ",".join(sending), _RECEIVERS: ",".join(receivers[name])}
        await alter_settings(admin, ConfigResource(ConfigResourceType.TOPIC, name), lists, ())
    rates = dict.fromkeys(_RATES, str(rate))
    for broker in sorted(involved & await live_brokers(admin)):
        await alter_settings(admin, _broker(broker), rates, ())


async def lift(admin: Admin) -> tuple[list[int], list[str]]:
    """Remove every limit; the brokers and topics that had one."""
    brokers = {str(broker): broker for broker in sorted(await live_brokers(admin))}
    limited = [
        brokers[name]
        async for name in _with(admin, ConfigResourceType.BROKER, list(brokers), BROKER_OVERRIDE)
    ]
    for broker in limited:
        await alter_settings(admin, _broker(broker), {}, _RATES)
    names = [topic.name for topic in await list_topics(admin)]
    listed = [name async for name in _with(admin, ConfigResourceType.TOPIC, names, TOPIC_OVERRIDE)]
    for name in listed:
        topic = ConfigResource(ConfigResourceType.TOPIC, name)
        await alter_settings(admin, topic, {}, (_SENDERS, _RECEIVERS))
    return limited, listed


async def _with(
    admin: Admin, kind: ConfigResourceType, names: list[str], source: int
) -> AsyncIterator[str]:
    """Those of these resources that have a limit of their own."""
    if not names:
        return
    for name, settings in (await describe_settings(admin, kind, names)).items():
        own = {setting.name for setting in settings if setting.config_source == source}
        if own.intersection((*_RATES, _SENDERS, _RECEIVERS)):
            yield name


def _broker(broker: int) -> ConfigResource:
    return ConfigResource(ConfigResourceType.BROKER, str(broker))
