"""Resolves subscriptions: the topics that members name, and those their patterns match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from klamm.groups.consumer.patterns import TopicPattern, parse
from klamm.groups.consumer.state import ConsumerMember, TopicShape

Cluster = Mapping[str, TopicShape]


def resolve(
    members: Iterable[ConsumerMember], cluster: Cluster, hidden: frozenset[str]
) -> dict[str, TopicShape]:
    """The subscribed topics that exist.

    A pattern stands for internal topics too, as in Kafka, where only an ACL keeps them from it; of
    those that Kafka does not have, the hidden ones, no client of Kafka's can know.
    """
    names: set[str] = set()
    patterns: set[str] = set()
    for member in members:
        names |= member.topics
        if member.pattern:
            patterns.add(member.pattern)
    for text in patterns:
        names |= _matching(text, cluster.keys() - hidden)
    return {name: cluster[name] for name in sorted(names) if name in cluster}


def subscription(member: ConsumerMember, topics: Iterable[str]) -> frozenset[str]:
    """Of these topics, the ones that a member reads."""
    if not member.pattern:
        return member.topics.intersection(topics)
    return member.topics.intersection(topics) | _matching(member.pattern, topics)


def _matching(text: str, names: Iterable[str]) -> frozenset[str]:
    pattern = parse(text)
    if not isinstance(pattern, TopicPattern):
        return frozenset()  # a record of another broker that understands more
    return frozenset(name for name in names if pattern.matches(name))
