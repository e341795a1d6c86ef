"""Whoever may not describe a topic cannot tell whether it is there: of no API, in no version.

Every request of the table of access that names a topic is made twice, of a topic that exists and of
one that does not, by somebody who has every right on groups and transactions and none on topics.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from interop.access_table import GROUP, REQUESTS, TOPIC, TXN, cases
from interop.test_access import ACLS, Guarded
from klamm import Cluster
from klamm.security.authorization.acls import Operation, Pattern, ResourceType
from klamm.security.authorization.needs import Need

ABSENT = "absent-topic"
# Answered before any right is looked at, as in Kafka: an id that nobody knows (100).
BY_ID = frozenset({1})
RIGHTS = {
    Pattern(ResourceType.GROUP, GROUP): {Operation.ALL},
    Pattern(ResourceType.TRANSACTIONAL_ID, TXN): {Operation.ALL},
}


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    with Cluster(1, settings={"authorizer.class.name": ACLS}) as cluster:
        made = Guarded(cluster)
        made.allow_everything()
        cluster.create_topic(TOPIC, 1)
        made.furnish()
        made.set(RIGHTS)
        yield made


def elsewhere(value: Any) -> Any:
    """The same request about a topic that does not exist."""
    if value == TOPIC:
        return ABSENT
    if isinstance(value, list):
        return [elsewhere(each) for each in value]
    if isinstance(value, dict):
        return {name: elsewhere(each) for name, each in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        changed = {field.name: elsewhere(getattr(value, field.name)) for field in fields(value)}
        return replace(value, **changed)
    if hasattr(value, "_replace"):
        return value._replace(**{n: elsewhere(getattr(value, n)) for n in value._fields})
    return value


def comparable(answer: Any) -> str:
    """An answer without the names that were asked about, and without what changes each time."""
    text = re.sub(r"0x[0-9a-f]+", "", repr(answer)).replace(ABSENT, TOPIC)
    return re.sub(r"(time\w*|at|timestamp\w*)=\d+", r"\1=?", text)


@pytest.mark.parametrize(("key", "need", "version"), list(cases()))
def test_a_forbidden_topic_is_no_different_from_none(
    guarded: Guarded, key: int, need: Need, version: int
) -> None:
    request = REQUESTS[key, need.case](guarded, version)
    other = elsewhere(REQUESTS[key, need.case](guarded, version))
    if repr(request) == repr(other) or (key in BY_ID and version >= 13):
        return  # it names no topic
    there = comparable(guarded.ask(key, version, request))
    not_there = comparable(guarded.ask(key, version, other))
    assert there == not_there
