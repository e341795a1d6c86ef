"""Nodes under `zookeeper.set.acl`."""

from __future__ import annotations

import pytest

from klamm.store.layout import CLUSTER_SECRET, Protection, protection


@pytest.mark.parametrize(
    ("path", "who"),
    [
        ("/brokers/ids/1", Protection.READABLE),
        ("/kafka-acl/Topic/orders", Protection.READABLE),
        ("/config/topics/orders", Protection.READABLE),
        ("/config/users", Protection.SECRET),
        ("/config/users/alice", Protection.SECRET),
        ("/config/usersX", Protection.SECRET),
        ("/config/brokers/1", Protection.SECRET),
        ("/delegation_token/tokens/x", Protection.SECRET),
        ("/delegation_token/token_changes", Protection.READABLE),
        ("/consumers", Protection.OPEN),
        ("/consumers/group", Protection.READABLE),
        (CLUSTER_SECRET, Protection.SECRET),
    ],
)
def test_protection(path: str, who: Protection) -> None:
    assert protection(path, set_acl=True) is who
    assert protection(path, set_acl=False) is Protection.OPEN
