"""What waits for a broker is merged, and what must stay apart stays apart."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any

import pytest

from klamm.broker.roll_call_form import to_json
from klamm.broker.term.backlog import Backlog
from klamm.broker.term.control_messages import ControlSender
from klamm.broker.term.outbox import Outbox
from klamm.client.errors import ConnectionLost
from klamm.controller import events
from klamm.controller.effects import (
    LeaderAndIsr,
    PartitionMetadata,
    ReplicaOrder,
    Request,
    StopOrder,
    StopReplica,
    UpdateMetadata,
)
from klamm.controller.membership.roll_call import Holdings
from klamm.model.assignment import Assignment
from klamm.model.brokers import Endpoint, Registration
from klamm.model.errors import ErrorCode, ProtocolError
from klamm.model.leadership import Leadership
from klamm.model.names import BrokerId, TopicPartition
from klamm.protocol.messages import api_versions, leader_and_isr, stop_replica, update_metadata
from unit.broker.brokers import until

ONE = BrokerId(1)
T0, T1 = TopicPartition("T", 0), TopicPartition("T", 1)
IDS = {"T": uuid.UUID(int=7)}


def led(epoch: int) -> Leadership:
    return Leadership(leader=ONE, leader_epoch=epoch, isr=(ONE,), controller_epoch=1)


def order(partition: TopicPartition, epoch: int, is_new: bool = False) -> ReplicaOrder:
    return ReplicaOrder(partition, led(epoch), Assignment((ONE,)), is_new)


def orders(*given: ReplicaOrder) -> LeaderAndIsr:
    return LeaderAndIsr(to=ONE, broker_epoch=1, orders=given, topic_ids=IDS, leaders=())


def metadata(*epochs: tuple[TopicPartition, int]) -> UpdateMetadata:
    known = tuple(PartitionMetadata(p, led(epoch), (ONE,), ()) for p, epoch in epochs)
    return UpdateMetadata(to=ONE, broker_epoch=1, partitions=known, topic_ids=IDS, brokers=())


def stop(delete: bool) -> StopReplica:
    return StopReplica(to=ONE, broker_epoch=1, orders=(StopOrder(T0, IDS["T"], -2, delete),))


def drained(*requests: Request) -> list[Request]:
    backlog = Backlog()
    for request in requests:
        backlog.add(request)
    taken = []
    while (request := backlog.take()) is not None:
        taken.append(request)
    return taken


def test_a_newer_order_replaces_one_that_was_not_sent_yet() -> None:
    (merged,) = drained(orders(order(T0, 1), order(T1, 1)), orders(order(T0, 2)))
    assert isinstance(merged, LeaderAndIsr)
    assert merged.orders == (order(T0, 2), order(T1, 1))


def test_a_log_that_may_be_created_stays_one_that_may_be_created() -> None:
    (merged,) = drained(orders(order(T0, 1, is_new=True)), orders(order(T0, 2)))
    assert isinstance(merged, LeaderAndIsr)
    assert merged.orders == (order(T0, 2, is_new=True),)


def test_the_latest_word_on_a_partition_is_what_clients_are_told() -> None:
    (merged,) = drained(metadata((T0, 1), (T1, 1)), metadata(), metadata((T0, 3)))
    assert isinstance(merged, UpdateMetadata)
    assert [m.leadership.leader_epoch for m in merged.partitions] == [3, 1]


def test_leaders_of_many_new_partitions_are_shown_before_they_are_ordered() -> None:
    some = [TopicPartition("T", at) for at in range(51)]
    ordered = [orders(order(place, 0, is_new=True)) for place in some]
    shown = metadata(*((place, 0) for place in some))
    assert [type(each) for each in drained(*ordered, shown)] == [UpdateMetadata, LeaderAndIsr]
    # Of a few, and where any of them is not new, metadata tells what is done already.
    assert [type(each) for each in drained(*ordered[1:], shown)] == [LeaderAndIsr, UpdateMetadata]
    mixed = [*ordered[1:], orders(order(some[0], 1))]
    assert [type(each) for each in drained(*mixed, shown)] == [LeaderAndIsr, UpdateMetadata]
    # Nothing is moved across a border.
    parted = drained(*ordered, stop(delete=True), shown)
    assert [type(each) for each in parted] == [LeaderAndIsr, StopReplica, UpdateMetadata]


def test_metadata_stays_on_its_side_of_the_orders() -> None:
    taken = drained(
        metadata((T0, 1)),
        metadata((T1, 1)),
        orders(order(T0, 2)),
        metadata((T0, 2)),
        orders(order(T1, 2)),
        metadata((T1, 2)),
    )
    assert taken == [
        metadata((T0, 1), (T1, 1)),
        orders(order(T0, 2), order(T1, 2)),
        metadata((T0, 2), (T1, 2)),
    ]


def test_metadata_that_waits_behind_orders_goes_before_later_orders() -> None:
    backlog = Backlog()
    backlog.add(orders(order(T0, 1)))
    backlog.add(metadata((T0, 1)))
    assert backlog.take() == orders(order(T0, 1))
    backlog.add(orders(order(T0, 2)))
    backlog.add(metadata((T0, 2)))
    assert [backlog.take() for _ in range(3)] == [
        metadata((T0, 1)),
        orders(order(T0, 2)),
        metadata((T0, 2)),
    ]


def test_nothing_is_moved_across_a_stop_and_two_of_them_stay_two() -> None:
    taken = drained(orders(order(T0, 1)), stop(False), stop(True), orders(order(T0, 2)))
    assert taken == [orders(order(T0, 1)), stop(False), stop(True), orders(order(T0, 2))]


def test_what_was_taken_is_not_sent_again_with_what_comes_later() -> None:
    backlog = Backlog()
    backlog.add(orders(order(T0, 1)))
    backlog.add(metadata((T0, 1)))
    assert backlog.take() == orders(order(T0, 1))
    backlog.add(orders(order(T1, 1)))
    assert backlog.take() == metadata((T0, 1))
    assert backlog.take() == orders(order(T1, 1))
    assert backlog.take() is None


async def test_what_is_held_back_goes_out_merged() -> None:
    link = _Link(0)
    answers: asyncio.Queue[events.Event] = asyncio.Queue()
    outbox = Outbox(ControlSender(ONE, 3), open=link.open, answered=answers.put_nowait)
    with outbox.held_back():
        await outbox.follow(broker(1))
        for epoch in (1, 2):
            outbox.send([orders(order(T0, epoch))])
            await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await answers.get()
    await outbox.close()
    assert len(link.heard) == 1


async def _begun(link: _Link, *requests: Request) -> tuple[Outbox, asyncio.Queue[events.Event]]:
    """A term that begins with these requests."""
    answers: asyncio.Queue[events.Event] = asyncio.Queue()
    outbox = Outbox(ControlSender(ONE, 3), open=link.open, answered=answers.put_nowait)
    with outbox.held_back():
        await outbox.follow(broker(1))
        outbox.send(requests)
    return outbox, answers


def _partitions(message: Any) -> list[tuple[str, int]]:
    return [
        (t.topic_name, p.partition_index) for t in message.topic_states for p in t.partition_states
    ]


CLAIMS = to_json(Holdings({IDS["T"]: {0: 4, 1: 5}}, {}))


async def test_a_broker_is_told_what_it_does_not_hold_and_no_more() -> None:
    link = _Link(0)
    link.claims = {"error_code": 0, **CLAIMS}
    outbox, _ = await _begun(link, orders(order(T0, 4), order(T1, 6)), metadata((T0, 4), (T1, 6)))
    async with asyncio.timeout(5):
        await outbox.delivered()
    await outbox.close()
    assert link.asked == [{"controller": 1, "controller_epoch": 3, "broker_epoch": 1}]
    assert [_partitions(message) for message in link.heard] == [[("T", 1)], [("T", 0), ("T", 1)]]


async def test_orders_that_come_later_are_sent_whatever_the_broker_held() -> None:
    link = _Link(0)
    link.claims = {"error_code": 0, **CLAIMS}
    outbox, answers = await _begun(link, orders(order(T0, 4), order(T1, 5)))
    outbox.send([orders(order(T0, 4))])  # before the roll call is even answered
    async with asyncio.timeout(5):
        answer = await answers.get()
    await outbox.close()
    assert isinstance(answer, events.LeaderAndIsrAnswered)
    assert [_partitions(message) for message in link.heard] == [[("T", 0)]]


@pytest.mark.parametrize(
    "claims",
    [None, {"error_code": 11, "error_message": "stale"}, {"error_code": 0, "replicas": [1]}],
    ids=["unknown", "refused", "nonsense"],
)
async def test_a_broker_without_a_sensible_answer_is_told_everything(
    claims: dict[str, Any] | None,
) -> None:
    link = _Link(0)
    link.claims = claims
    outbox, answers = await _begun(link, orders(order(T0, 4), order(T1, 5)))
    async with asyncio.timeout(5):
        await answers.get()
    await outbox.close()
    assert [_partitions(message) for message in link.heard] == [[("T", 0), ("T", 1)]]


async def test_a_broker_that_is_silent_is_told_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("klamm.broker.term.outbox._ROLL_CALL_S", 0.01)
    link = _Link(0)
    link.claims = {"error_code": 0, **CLAIMS}
    link.may_answer.clear()
    outbox, answers = await _begun(link, orders(order(T0, 4)))
    async with asyncio.timeout(5):
        await answers.get()
    await outbox.close()
    assert [_partitions(message) for message in link.heard] == [[("T", 0)]]


async def test_brokers_that_come_during_a_term_are_not_asked() -> None:
    link = _Link(0)
    outbox = Outbox(ControlSender(ONE, 3), open=link.open, answered=lambda _: None)
    await outbox.follow(broker(1))
    outbox.send([orders(order(T0, 4))])
    async with asyncio.timeout(5):
        await outbox.delivered()
    await outbox.close()
    assert (link.asked, len(link.heard)) == ([], 1)


class _Link:
    """A broker behind a link that fails as often as it is told to."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.opened = 0
        self.heard: list[Any] = []
        self.asked: list[Mapping[str, Any]] = []
        self.claims: dict[str, Any] | None = None  # the answer to a roll call, if it knows of any
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def open(self, endpoint: Endpoint) -> _Link:
        self.opened += 1
        return self

    async def ask(self, key: int, body: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append(body)
        await self.may_answer.wait()
        if self.claims is None:
            raise ConnectionLost("it does not know this api")
        return self.claims

    async def request(self, key: Any, version: int, message: Any) -> Any:
        if self.failures:
            self.failures -= 1
            raise ProtocolError("garbled")
        self.heard.append(message)
        if isinstance(message, leader_and_isr.Request):
            return leader_and_isr.Response()
        if isinstance(message, stop_replica.Request):
            error = stop_replica.StopReplicaPartitionError("T", 0, ErrorCode.KAFKA_STORAGE_ERROR)
            return stop_replica.Response(partition_errors=[error])
        return update_metadata.Response()

    async def close(self) -> None:
        pass


def broker(epoch: int) -> dict[BrokerId, Registration]:
    return {ONE: Registration(id=ONE, epoch=epoch, endpoints=(Endpoint("host", 9),))}


@pytest.mark.parametrize("failures", [0, 2])
async def test_a_request_is_tried_until_it_is_answered_and_the_answer_is_an_event(
    failures: int,
) -> None:
    link = _Link(failures)
    answers: asyncio.Queue[events.Event] = asyncio.Queue()
    outbox = Outbox(ControlSender(ONE, 3), open=link.open, answered=answers.put_nowait)
    await outbox.follow(broker(1))
    outbox.send([stop(True)])
    async with asyncio.timeout(5):
        answer = await answers.get()
    await outbox.close()
    assert answer == events.StopReplicaAnswered(
        stop(True), ErrorCode.NONE, {T0: ErrorCode.KAFKA_STORAGE_ERROR}
    )
    assert link.opened == 1 + failures
    assert link.heard[0].controller_epoch == 3


async def test_requests_for_a_registration_that_ended_are_dropped() -> None:
    link = _Link(0)
    answers: asyncio.Queue[events.Event] = asyncio.Queue()
    outbox = Outbox(ControlSender(ONE, 3), open=link.open, answered=answers.put_nowait)
    await outbox.follow(broker(2))
    outbox.send([stop(True)])  # made for epoch 1
    later = StopReplica(to=ONE, broker_epoch=2, orders=stop(True).orders)
    outbox.send([later])
    async with asyncio.timeout(5):
        answer = await answers.get()
    await outbox.close()
    assert isinstance(answer, events.StopReplicaAnswered)
    assert answer.request == later
    assert len(link.heard) == 1


class _Mute:
    """A broker that takes requests and answers when it is told to."""

    async def ask(self, key: int, body: Mapping[str, Any]) -> dict[str, Any]:
        raise ConnectionLost("it does not know this api")

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.received: list[Any] = []

    async def request(self, key: Any, version: int, message: Any) -> Any:
        self.received.append(message)
        await self.may_answer.wait()
        return update_metadata.Response()

    async def close(self) -> None:
        pass


async def _outbox_to(
    mute: _Mute, heard: asyncio.Queue[events.Event], controller: int, **settings: Any
) -> Outbox:
    async def open_link(_: Endpoint) -> _Mute:
        return mute

    outbox = Outbox(
        ControlSender(BrokerId(controller), 1),
        open=open_link,
        answered=heard.put_nowait,
        **{"fence_s": _soon, **settings},
    )
    await outbox.follow({ONE: Registration(id=ONE, epoch=1, endpoints=(Endpoint("host", 1),))})
    return outbox


def _soon() -> float:
    return 0.02


async def test_a_silent_broker_is_given_up_until_it_answers() -> None:
    mute, heard = _Mute(), asyncio.Queue[events.Event]()
    outbox = await _outbox_to(mute, heard, controller=0)
    try:
        outbox.send([metadata((T0, 1)), stop(delete=True)])
        async with asyncio.timeout(10):
            assert await heard.get() == events.BrokerUnreachable(ONE, 1)
            mute.may_answer.set()
            assert await heard.get() == events.BrokerReached(ONE, 1)
        assert len(mute.received) == 1  # what waited behind was dropped
    finally:
        await outbox.close()


async def test_a_broker_that_nothing_is_to_be_said_to_is_missed_too() -> None:
    mute, heard = _Mute(), asyncio.Queue[events.Event]()
    outbox = await _outbox_to(mute, heard, controller=0)
    try:
        async with asyncio.timeout(10):
            assert await heard.get() == events.BrokerUnreachable(ONE, 1)
            mute.may_answer.set()
            assert await heard.get() == events.BrokerReached(ONE, 1)
        assert isinstance(mute.received[0], api_versions.Request)
    finally:
        await outbox.close()


async def test_the_controller_never_gives_its_own_broker_up() -> None:
    mute, heard = _Mute(), asyncio.Queue[events.Event]()
    outbox = await _outbox_to(mute, heard, controller=1)
    try:
        outbox.send([metadata((T0, 1))])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await heard.get()
    finally:
        await outbox.close()


async def test_a_fault_of_our_own_is_not_tried_again_but_told() -> None:
    async def open_badly(endpoint: Endpoint) -> _Link:
        raise ZeroDivisionError

    outbox = Outbox(ControlSender(ONE, 3), open=open_badly, answered=lambda _: None)
    await outbox.follow(broker(1))
    outbox.send([stop(True)])
    with pytest.raises(ZeroDivisionError):
        async with asyncio.timeout(5):
            await outbox.watch()
    await outbox.close()


async def test_a_broker_that_does_not_answer_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        mute, heard = _Mute(), asyncio.Queue[events.Event]()
        outbox = await _outbox_to(mute, heard, 0, fence_s=lambda: 0.0, alert_s=0.02)
        try:
            outbox.send([metadata((T0, 1))])
            await until(
                lambda: any("does not answer" in r.message for r in caplog.records), "it is told"
            )
            assert heard.empty()  # it is only told: without the setting nobody is fenced
        finally:
            await outbox.close()

    with caplog.at_level("WARNING", logger="klamm.broker.term.outbox"):
        await run()


async def test_what_waits_for_a_broker_that_does_not_answer_is_bounded() -> None:
    mute, heard = _Mute(), asyncio.Queue[events.Event]()
    outbox = await _outbox_to(mute, heard, 0, fence_s=lambda: 0.0, stops_max=3)
    try:
        outbox.send([metadata((T0, 1))])
        await until(lambda: bool(mute.received), "the first request is on its way")
        async with asyncio.timeout(10):
            outbox.send([stop(True), metadata((T0, 1)), stop(True), stop(True)])
            await asyncio.sleep(0)
            assert heard.empty()
            outbox.send([stop(True)])
            assert await heard.get() == events.BrokerUnreachable(ONE, 1)
            mute.may_answer.set()
            assert await heard.get() == events.BrokerReached(ONE, 1)
        assert len(mute.received) == 1  # what waited was dropped: it is told everything anew
    finally:
        await outbox.close()


async def test_what_was_sent_is_delivered_when_it_is_answered() -> None:
    mute, heard = _Mute(), asyncio.Queue[events.Event]()
    outbox = await _outbox_to(mute, heard, 0, fence_s=lambda: 0.0)
    try:
        outbox.send([metadata((T0, 1)), metadata((T1, 1))])
        delivered = asyncio.ensure_future(outbox.delivered())
        await until(lambda: bool(mute.received), "the request is on its way")
        assert not delivered.done()
        mute.may_answer.set()
        async with asyncio.timeout(10):
            await delivered
    finally:
        await outbox.close()


class _Obeying(_Mute):
    """A broker that learns at once and obeys when it is told to."""

    async def request(self, key: Any, version: int, message: Any) -> Any:
        if isinstance(message, leader_and_isr.Request):
            await super().request(key, version, message)
            return leader_and_isr.Response()
        return update_metadata.Response()


async def test_what_everybody_shows_does_not_wait_for_the_orders_behind_it() -> None:
    broker, heard = _Obeying(), asyncio.Queue[events.Event]()
    outbox = await _outbox_to(broker, heard, 0, fence_s=lambda: 0.0)
    some = [TopicPartition("T", at) for at in range(51)]
    try:
        new = orders(*(order(place, 0, is_new=True) for place in some))
        outbox.send([new, metadata(*((place, 0) for place in some))])
        async with asyncio.timeout(10):
            await outbox.shown()
            await until(lambda: bool(broker.received), "the orders are on their way")
            delivered = asyncio.ensure_future(outbox.delivered())
            broker.may_answer.set()
            await delivered
    finally:
        await outbox.close()
