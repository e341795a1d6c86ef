"""Places replicas for `klamm reassign` and `klamm brokers drain`.

A plan is a mapping from partitions to replicas, in the JSON of Kafka's own reassignment tool, so
that plans travel between the two. Placing looks at where replicas are and changes as few as it can;
the cluster does the rest.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from klamm.cli.facts import TopicFacts
from klamm.model.errors import UsageError
from klamm.model.names import TopicPartition

Plan = dict[TopicPartition, tuple[int, ...]]

_ANYWHERE: Final = "any"  # a directory of the broker's choice


def drain(topics: Iterable[TopicFacts], leaving: int, staying: Iterable[int]) -> Plan:
    """Replace one broker in every assignment by the least burdened of those that stay.

    An internal topic that has a replica everywhere gives up the one on the leaving broker: it is
    the cluster's own business, and must not keep a broker from being emptied.
    """
    topics = list(topics)
    burden = _burden(topics)
    candidates = sorted(set(staying) - {leaving})
    plan: Plan = {}
    for topic in topics:
        for partition in topic.partitions:
            if leaving not in partition.replicas:
                continue
            free = [broker for broker in candidates if broker not in partition.replicas]
            left = tuple(broker for broker in partition.replicas if broker != leaving)
            if not free and topic.is_internal and left:
                plan[TopicPartition(topic.name, partition.index)] = left
                continue
            if not free:
                raise UsageError(
                    f"{topic.name}-{partition.index} has {len(partition.replicas)} replicas: "
                    f"without broker {leaving} there is no broker left for one of them; start "
                    f"another broker, or give the topic fewer replicas with klamm reassign plan "
                    f"{topic.name} --brokers {','.join(map(str, candidates))} "
                    f"--replication-factor {len(candidates)}"
                )
            heir = min(free, key=lambda broker: (burden[broker], broker))
            burden[heir] += 1
            plan[TopicPartition(topic.name, partition.index)] = tuple(
                heir if broker == leaving else broker for broker in partition.replicas
            )
    return plan


def spread(topics: Iterable[TopicFacts], brokers: Sequence[int], copies: int | None) -> Plan:
    """Let these topics live on these brokers alone, evenly, moving only what must move.

    Replicas that already are on a chosen broker stay, in their order; missing ones go to the least
    burdened. `copies` changes the replication factor.
    """
    topics = list(topics)
    chosen = set(brokers)
    burden: Counter[int] = Counter(dict.fromkeys(brokers, 0))
    plan: Plan = {}
    for topic in topics:
        for partition in topic.partitions:
            wanted = copies if copies is not None else partition.replication_factor
            if wanted > len(chosen):
                raise UsageError(f"{wanted} replicas do not fit on {len(chosen)} brokers")
            kept = [broker for broker in partition.replicas if broker in chosen][:wanted]
            while len(kept) < wanted:
                free = chosen.difference(kept)
                kept.append(min(free, key=lambda broker: (burden[broker], broker)))
            burden.update(kept)
            if tuple(kept) != partition.replicas:
                plan[TopicPartition(topic.name, partition.index)] = tuple(kept)
    return plan


def _burden(topics: Iterable[TopicFacts]) -> Counter[int]:
    return Counter(b for topic in topics for p in topic.partitions for b in p.replicas)


def to_json(plan: Mapping[TopicPartition, Sequence[int]]) -> str:
    """The plan as Kafka's reassignment tool writes it."""
    partitions = [
        {"topic": topic, "partition": partition, "replicas": list(replicas)}
        for (topic, partition), replicas in sorted(plan.items())
    ]
    return json.dumps({"version": 1, "partitions": partitions})


def tell(plan: Mapping[TopicPartition, Sequence[int]]) -> Iterator[str]:
    """The plan for people, a line a partition."""
    for partition, replicas in sorted(plan.items()):
        yield f"  {partition} to {', '.join(map(str, replicas))}"


def from_json(text: str) -> Plan:
    """The inverse of `to_json`."""
    return {partition: replicas for partition, replicas, _ in _entries(text)}


def directories(text: str) -> dict[int, dict[TopicPartition, str]]:
    """The `log_dirs` of a plan, as Kafka's tool has them: where brokers are to keep their logs."""
    found: dict[int, dict[TopicPartition, str]] = {}
    for partition, replicas, paths in _entries(text):
        for broker, path in zip(replicas, paths, strict=False):
            if path != _ANYWHERE:
                found.setdefault(broker, {})[partition] = path
    return found


def _entries(text: str) -> Iterator[tuple[TopicPartition, tuple[int, ...], list[str]]]:
    try:
        for entry in json.loads(text)["partitions"]:
            partition = TopicPartition(str(entry["topic"]), int(entry["partition"]))
            replicas = tuple(int(broker) for broker in entry["replicas"])
            paths = [str(path) for path in entry.get("log_dirs", ())]
            if paths and len(paths) != len(replicas):
                raise ValueError(f"{partition} has {len(replicas)} replicas in {len(paths)} places")
            yield partition, replicas, paths
    except (ValueError, KeyError, TypeError) as fault:
        raise UsageError(f"this is not a reassignment plan: {fault}") from None
