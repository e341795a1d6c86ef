"""The requests of one step: in which order, to whom, and what of two words on one replica stays."""

import pytest

from klamm.controller.batch import Batch
from klamm.controller.context import Context, Partition
from klamm.controller.effects import LeaderAndIsr, StopReplica, UpdateMetadata
from klamm.model.names import EPOCH_DURING_DELETE, BrokerId
from world.cluster import World, tp

ONE, TWO, NINE = BrokerId(1), BrokerId(2), BrokerId(9)


@pytest.fixture
def context() -> Context:
    world = World([1, 2])
    world.elect(1)
    world.create("T", [[1, 2]])
    return world.core.context


@pytest.fixture
def partition(context: Context) -> Partition:
    found = context.partition(tp("T-0"))
    assert found is not None
    return found


def test_roles_come_before_metadata_and_metadata_before_stops(
    context: Context, partition: Partition
) -> None:
    batch = Batch(context)
    batch.stop(ONE, partition, delete=False)
    batch.order((TWO,), partition, is_new=False)
    kinds = [(type(request), request.to) for request in batch.requests()]
    assert kinds == [
        (LeaderAndIsr, 2),
        (UpdateMetadata, 1),
        (UpdateMetadata, 2),
        (StopReplica, 1),
    ]


def test_a_batch_has_nothing_of_the_one_before(context: Context, partition: Partition) -> None:
    first = Batch(context)
    first.order((ONE, TWO), partition, is_new=True)
    first.stop(TWO, partition, delete=True)
    assert Batch(context).requests() == []  # even where the first was never sent


def test_who_is_not_registered_is_not_told(context: Context, partition: Partition) -> None:
    batch = Batch(context)
    batch.order((NINE,), partition, is_new=False)
    batch.stop(NINE, partition, delete=True)
    batch.publish([partition], to=[NINE])
    assert {request.to for request in batch.requests()} == {1, 2}  # of the order, by metadata


def test_a_log_that_may_be_created_stays_one_that_may_be_created(
    context: Context, partition: Partition
) -> None:
    batch = Batch(context)
    batch.order((ONE,), partition, is_new=True)
    batch.order((ONE, TWO), partition, is_new=False)
    orders = [r.orders[0].is_new for r in batch.requests() if isinstance(r, LeaderAndIsr)]
    assert orders == [True, False]


def test_a_copy_that_is_to_be_deleted_stays_so(context: Context, partition: Partition) -> None:
    batch = Batch(context)
    batch.stop(ONE, partition, delete=True)
    batch.stop(ONE, partition, delete=False)
    (stop,) = [request for request in batch.requests() if isinstance(request, StopReplica)]
    assert [order.delete for order in stop.orders] == [True]


def test_a_stop_names_the_epoch_or_overrides_all_of_them() -> None:
    world = World([1, 2])
    world.elect(1)
    world.create("T", [[1, 2]])
    epochs = []
    for _ in range(2):
        partition = world.core.context.partition(tp("T-0"))
        assert partition is not None
        batch = Batch(world.core.context)
        batch.stop(TWO, partition, delete=False)
        (stop,) = [request for request in batch.requests() if isinstance(request, StopReplica)]
        epochs += [order.leader_epoch for order in stop.orders]
        world.delete("T")
    assert epochs == [0, EPOCH_DURING_DELETE]
