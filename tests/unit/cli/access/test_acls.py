"""Entries for topics that are not there any more."""

from __future__ import annotations

import pytest

from klamm.cli.access.acls import _is_orphan
from klamm.security.authorization.acls import Pattern, PatternType, ResourceType

TOPIC, PREFIXED = ResourceType.TOPIC, PatternType.PREFIXED


@pytest.mark.parametrize(
    ("pattern", "is_orphan"),
    [
        (Pattern(TOPIC, "orders"), False),
        (Pattern(TOPIC, "order"), True),
        (Pattern(TOPIC, "order", PREFIXED), False),
        (Pattern(TOPIC, "old-", PREFIXED), True),
        (Pattern(TOPIC, "*"), False),
        (Pattern(ResourceType.GROUP, "gone"), False),
    ],
)
def test_an_entry_that_no_topic_fits_is_an_orphan(pattern: Pattern, is_orphan: bool) -> None:
    assert _is_orphan(pattern, {"orders", "bills"}) is is_orphan


def test_everything_is_for_topics_to_come_as_well() -> None:
    assert not _is_orphan(Pattern(TOPIC, "*"), ())
