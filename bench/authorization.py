"""What the question "may this caller write to that topic?" costs with 10,000 ACLs, in microseconds.

The first question about a topic walks the patterns that cover it; the others find the answer. A
tenth of the entries are prefixes of many lengths, and 2,000 stand on `*`, where a list that is
walked would show.
"""

from __future__ import annotations

import time
from functools import cache

from measure import Measure

from klamm.security.authorization.acls import (
    Acl,
    Binding,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from klamm.security.authorization.authorizer import Authorizer
from klamm.security.authorization.rights import Right
from klamm.security.authorization.snapshot import Snapshot, snapshot_of
from klamm.security.principals import Principal

TOPICS = 7_000
PREFIXES = 1_000
ON_ALL = 2_000
BEST_OF = 20
WRITE = Right(Operation.WRITE, ResourceType.TOPIC)


def _allow(user: str) -> Acl:
    return Acl(f"User:{user}", "*", Operation.WRITE, Permission.ALLOW)


@cache
def lists() -> Snapshot:
    topic = ResourceType.TOPIC
    return snapshot_of(
        [
            *(Binding(Pattern(topic, f"topic-{n}"), _allow(f"u{n % 100}")) for n in range(TOPICS)),
            *(
                Binding(
                    Pattern(topic, f"team-{n}-" + "x" * (n % 30), PatternType.PREFIXED),
                    _allow(f"u{n % 100}"),
                )
                for n in range(PREFIXES)
            ),
            *(Binding(Pattern(topic, "*"), _allow(f"v{n}")) for n in range(ON_ALL)),
        ]
    )


def _authorizer() -> Authorizer:
    return Authorizer(snapshot=lists())


def asked_again() -> float:
    caller = _authorizer().caller(Principal("User", "u7"), "10.0.0.1")
    names = [f"topic-{n}" for n in range(7, TOPICS, 100)]
    assert all(caller.allows(WRITE, name) for name in names)
    best = float("inf")
    for _ in range(BEST_OF):
        started = time.process_time()
        for _ in range(100):
            for name in names:
                caller.allows(WRITE, name)
        best = min(best, (time.process_time() - started) / (100 * len(names)))
    return best * 1e6


def asked_first() -> float:
    names = [f"topic-{n}" for n in range(TOPICS)]
    best = float("inf")
    for _ in range(BEST_OF):
        caller = _authorizer().caller(Principal("User", "u7"), "10.0.0.1")
        started = time.process_time()
        for name in names:
            caller.allows(WRITE, name)
        best = min(best, (time.process_time() - started) / len(names))
    return best * 1e6


def changed() -> float:
    rules = _authorizer()
    pattern = Pattern(ResourceType.TOPIC, "topic-7")
    best = float("inf")
    for _ in range(BEST_OF):
        started = time.process_time()
        rules.replace(rules.snapshot.replaced({pattern: [_allow("u7")]}))
        best = min(best, time.process_time() - started)
    return best * 1e6


MEASURES = (
    Measure("acl-again", "an ACL decision, 10,000 ACLs", "us", asked_again, 1.0),
    Measure("acl-first", "the first decision on a topic", "us", asked_first),
    Measure("acl-change", "one pattern changed among 8,000", "us", changed),
)
