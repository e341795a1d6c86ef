"""The controller's requests as messages, and the brokers' answers as events.

Versions are those of Kafka 3.9 (LeaderAndIsr 7, UpdateMetadata 8, StopReplica 4); they are dictated
and not negotiated, for all brokers of a cluster are of one release.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final, NamedTuple, assert_never

from klamm.controller import effects, events
from klamm.model.brokers import PLAINTEXT, SECURITY_PROTOCOL_IDS, Endpoint, Registration
from klamm.model.errors import ErrorCode
from klamm.model.leadership import Leadership
from klamm.model.names import LEADER_DURING_DELETE, ZERO_ID, BrokerId, TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import leader_and_isr, stop_replica, update_metadata

LEADER_AND_ISR_VERSION: Final = 7
UPDATE_METADATA_VERSION: Final = 8
STOP_REPLICA_VERSION: Final = 4


class ControlSender(NamedTuple):
    """The sender: its broker, its term, and the listener that brokers use among themselves."""

    controller: BrokerId
    epoch: int
    listener: str = PLAINTEXT


class ControlMessage(NamedTuple):
    """A request ready for the codec."""

    key: ApiKey
    version: int
    body: Any


def message_of(request: effects.Request, sender: ControlSender) -> ControlMessage:
    """The message a request travels as."""
    match request:
        case effects.LeaderAndIsr():
            body: Any = _leader_and_isr(request, sender)
            return ControlMessage(ApiKey.LEADER_AND_ISR, LEADER_AND_ISR_VERSION, body)
        case effects.UpdateMetadata():
            body = _update_metadata(request, sender)
            return ControlMessage(ApiKey.UPDATE_METADATA, UPDATE_METADATA_VERSION, body)
        case effects.StopReplica():
            body = _stop_replica(request, sender)
            return ControlMessage(ApiKey.STOP_REPLICA, STOP_REPLICA_VERSION, body)
        case _:
            assert_never(request)


def event_of(request: effects.Request, response: Any) -> events.Event | None:
    """The event that a broker's answer means to the controller; None if it means nothing."""
    code = error_code(response.error_code)
    match request:
        case effects.LeaderAndIsr():
            names = {topic_id: name for name, topic_id in request.topic_ids.items()}
            errors = {
                TopicPartition(names[topic.topic_id], p.partition_index): error_code(p.error_code)
                for topic in response.topics
                if topic.topic_id in names
                for p in topic.partition_errors
            }
            return events.LeaderAndIsrAnswered(request, code, errors)
        case effects.StopReplica():
            if not any(order.delete for order in request.orders):
                return None
            errors = {
                TopicPartition(p.topic_name, p.partition_index): error_code(p.error_code)
                for p in response.partition_errors
            }
            return events.StopReplicaAnswered(request, code, errors)
        case effects.UpdateMetadata():
            return None
        case _:
            assert_never(request)


def error_code(number: int) -> ErrorCode:
    """A code from the wire; one that is not known is as good as an unknown error."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _leader_and_isr(request: effects.LeaderAndIsr, sender: ControlSender) -> leader_and_isr.Request:
    orders = sorted(request.orders, key=lambda order: order.partition)
    return leader_and_isr.Request(
        controller_id=sender.controller,
        controller_epoch=sender.epoch,
        broker_epoch=request.broker_epoch,
        topic_states=[
            leader_and_isr.LeaderAndIsrTopicState(
                topic_name=topic,
                topic_id=_id(request.topic_ids.get(topic)),
                partition_states=[_order_state(order) for order in group],
            )
            for topic, group in groupby(orders, key=lambda order: order.partition.topic)
        ],
        live_leaders=[
            _live_leader(broker.id, endpoint)
            for broker in request.leaders
            if (endpoint := broker.endpoint(sender.listener)) is not None
        ],
    )


def _order_state(order: effects.ReplicaOrder) -> leader_and_isr.LeaderAndIsrPartitionState:
    leadership, assignment = order.leadership, order.assignment
    return leader_and_isr.LeaderAndIsrPartitionState(
        partition_index=order.partition.partition,
        controller_epoch=leadership.controller_epoch,
        leader=leadership.leader,
        leader_epoch=leadership.leader_epoch,
        isr=list(leadership.isr),
        partition_epoch=leadership.partition_epoch,
        replicas=list(assignment.replicas),
        adding_replicas=list(assignment.adding),
        removing_replicas=list(assignment.removing),
        is_new=order.is_new,
        leader_recovery_state=int(leadership.recovery),
    )


def _live_leader(broker: BrokerId, endpoint: Endpoint) -> leader_and_isr.LeaderAndIsrLiveLeader:
    return leader_and_isr.LeaderAndIsrLiveLeader(
        broker_id=broker, host_name=endpoint.host, port=endpoint.port
    )


def _update_metadata(
    request: effects.UpdateMetadata, sender: ControlSender
) -> update_metadata.Request:
    partitions = sorted(request.partitions, key=lambda metadata: metadata.partition)
    return update_metadata.Request(
        controller_id=sender.controller,
        controller_epoch=sender.epoch,
        broker_epoch=request.broker_epoch,
        topic_states=[
            update_metadata.UpdateMetadataTopicState(
                topic_name=topic,
                topic_id=_id(request.topic_ids.get(topic)),
                partition_states=[_metadata_state(metadata) for metadata in group],
            )
            for topic, group in groupby(partitions, key=lambda m: m.partition.topic)
        ],
        live_brokers=[_live_broker(broker) for broker in request.brokers],
    )


def _metadata_state(
    metadata: effects.PartitionMetadata,
) -> update_metadata.UpdateMetadataPartitionState:
    leadership: Leadership = metadata.leadership
    gone = metadata.is_deleted
    return update_metadata.UpdateMetadataPartitionState(
        partition_index=metadata.partition.partition,
        controller_epoch=leadership.controller_epoch,
        leader=LEADER_DURING_DELETE if gone else leadership.leader,
        leader_epoch=0 if gone else leadership.leader_epoch,
        isr=list(leadership.isr),
        zk_version=0 if gone else leadership.partition_epoch,
        replicas=list(metadata.replicas),
        offline_replicas=list(metadata.offline),
    )


def _live_broker(broker: Registration) -> update_metadata.UpdateMetadataBroker:
    return update_metadata.UpdateMetadataBroker(
        id=broker.id,
        endpoints=[
            update_metadata.UpdateMetadataEndpoint(
                port=endpoint.port,
                host=endpoint.host,
                listener=endpoint.listener,
                security_protocol=SECURITY_PROTOCOL_IDS[endpoint.security_protocol],
            )
            for endpoint in broker.endpoints
        ],
        rack=broker.rack,
    )


def _stop_replica(request: effects.StopReplica, sender: ControlSender) -> stop_replica.Request:
    return stop_replica.Request(
        controller_id=sender.controller,
        controller_epoch=sender.epoch,
        broker_epoch=request.broker_epoch,
        topic_states=[
            stop_replica.StopReplicaTopicState(
                topic_name=topic,
                partition_states=[_stop_state(order) for order in group],
            )
            for topic, group in _by_topic(request.orders)
        ],
    )


def _by_topic(
    orders: Iterable[effects.StopOrder],
) -> Iterable[tuple[str, Iterable[effects.StopOrder]]]:
    ordered = sorted(orders, key=lambda order: order.partition)
    return groupby(ordered, key=lambda order: order.partition.topic)


def _stop_state(order: effects.StopOrder) -> stop_replica.StopReplicaPartitionState:
    return stop_replica.StopReplicaPartitionState(
        partition_index=order.partition.partition,
        leader_epoch=order.leader_epoch,
        delete_partition=order.delete,
    )


def _id(topic_id: uuid.UUID | None) -> uuid.UUID:
    return topic_id or ZERO_ID
