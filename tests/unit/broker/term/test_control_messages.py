"""Requests of the controller as messages: which address of a broker goes where."""

from __future__ import annotations

from klamm.broker.term.control_messages import ControlSender, message_of
from klamm.controller.effects import LeaderAndIsr, UpdateMetadata
from klamm.model.brokers import Endpoint, Registration
from klamm.model.names import BrokerId

ONE, TWO = BrokerId(1), BrokerId(2)
BOTH = Registration(
    id=ONE,
    epoch=7,
    endpoints=(
        Endpoint("outside", 9092, "CLIENTS", "SASL_SSL"),
        Endpoint("inside", 9093, "INTERNAL", "SSL"),
    ),
)
OUTSIDE_ONLY = Registration(id=TWO, epoch=8, endpoints=(Endpoint("outside", 9094, "CLIENTS"),))


def test_leaders_are_named_by_the_listener_between_brokers() -> None:
    order = LeaderAndIsr(
        to=ONE, broker_epoch=7, orders=(), topic_ids={}, leaders=(BOTH, OUTSIDE_ONLY)
    )
    body = message_of(order, ControlSender(ONE, 3, "INTERNAL")).body
    named = [(one.broker_id, one.host_name, one.port) for one in body.live_leaders]
    assert named == [(1, "inside", 9093)], "one that brokers cannot reach is not named"


def test_metadata_has_every_endpoint_with_its_protocol() -> None:
    update = UpdateMetadata(
        to=ONE, broker_epoch=7, partitions=(), topic_ids={}, brokers=(BOTH, OUTSIDE_ONLY)
    )
    body = message_of(update, ControlSender(ONE, 3, "INTERNAL")).body
    told = [
        [(e.listener, e.host, e.port, e.security_protocol) for e in one.endpoints]
        for one in body.live_brokers
    ]
    assert told == [
        [("CLIENTS", "outside", 9092, 3), ("INTERNAL", "inside", 9093, 1)],
        [("CLIENTS", "outside", 9094, 0)],
    ]
