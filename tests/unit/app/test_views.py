"""A broker's metadata is the same behind a socket."""

from __future__ import annotations

import json

from klamm.app.views import packed, unpacked
from klamm.broker.metadata_cache import MetadataSnapshot, PartitionInfo
from klamm.model.brokers import Registration
from klamm.model.names import BrokerId
from klamm.view import BrokerView, ClusterView, all_are_in_sync, isr_has, lagging

ONE, TWO = BrokerId(1), BrokerId(2)


def test_a_view_looks_the_same_there() -> None:
    partitions = {
        0: PartitionInfo(ONE, 3, (ONE, TWO), (ONE, TWO), (), 7),
        1: PartitionInfo(TWO, 4, (TWO,), (TWO, ONE), (ONE,), 8),
    }
    snapshot = MetadataSnapshot(
        topics={"t": partitions},
        brokers={each: Registration(id=each, epoch=-1, endpoints=()) for each in (ONE, TWO)},
        controller_id=TWO,
    )
    there = unpacked(json.loads(json.dumps(packed(snapshot))))
    assert there.topics == snapshot.topics
    assert there.brokers.keys() == snapshot.brokers.keys()
    assert there.controller_id == TWO
    view = ClusterView({1: BrokerView(there)}, 2)
    assert isr_has("t", 0)(view)
    assert not all_are_in_sync()(view)
    assert lagging(view.brokers[1]) == 1
