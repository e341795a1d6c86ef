"""The metrics of a cluster, put together anew for each scrape.

Every series has the label `broker`, for one address speaks for all brokers of a process. A broker
that is not the controller shows zeros for what only the controller knows, as Kafka's do, so that a
sum over brokers is right whoever leads.

A counter and a histogram only grow while a broker runs; rates and quantiles are the reader's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from itertools import accumulate
from typing import Final, NamedTuple

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from klamm.broker.identity import counts
from klamm.broker.metrics import BOUNDS_S, Histogram
from klamm.broker.server import Broker
from klamm.broker.term.controller_states import ControllerState
from klamm.controller.questions.gauges import Gauges
from klamm.protocol.apis import APIS

_LIMITS: Final = (*map(str, BOUNDS_S), "+Inf")
# Those of Kafka's timers that never move there, or have none.
_UNTIMED: Final = frozenset({ControllerState.IDLE})


class Single(NamedTuple):
    """A metric with one series a broker."""

    name: str
    meaning: str
    read: Callable[[Broker], float]
    kafka: str = "-"  # the name of Kafka's own


CONTROLLER: Final = (
    Single(
        "klamm_controller_active_controller_count",
        "1 where this broker is the controller",
        lambda b: b.is_controller,
        "ActiveControllerCount",
    ),
    Single(
        "klamm_controller_state",
        "what the controller works on, by Kafka's numbers; 0 is nothing",
        lambda b: b.parts.controller.metrics.state,
        "ControllerState",
    ),
    Single(
        "klamm_controller_event_queue_size",
        "events that wait for the controller",
        lambda b: sum(b.parts.controller.queue_sizes().values()),
        "EventQueueSize",
    ),
)
GAUGES: Final[Mapping[str, tuple[str, str]]] = {
    "active_broker_count": (
        "brokers that are registered and in reach",
        "ActiveBrokerCount",
    ),
    "fenced_broker_count": ("brokers that are registered but out of reach", "FencedBrokerCount"),
    "global_topic_count": ("topics, those being deleted included", "GlobalTopicCount"),
    "global_partition_count": (
        "partitions, those of topics being deleted included",
        "GlobalPartitionCount",
    ),
    "offline_partitions_count": ("partitions that nobody leads", "OfflinePartitionsCount"),
    "preferred_replica_imbalance_count": (
        "partitions led by another than their preferred replica, or by nobody",
        "PreferredReplicaImbalanceCount",
    ),
    "topics_to_delete_count": ("topics on their way out", "TopicsToDeleteCount"),
    "topics_ineligible_to_delete_count": (
        "those of them that wait for a replica or a move",
        "TopicsIneligibleToDeleteCount",
    ),
    "replicas_to_delete_count": (
        "replicas of topics on their way out that are not removed yet",
        "ReplicasToDeleteCount",
    ),
    "replicas_ineligible_to_delete_count": (
        "those of them that could not be removed at the last try",
        "ReplicasIneligibleToDeleteCount",
    ),
    "reassigning_partitions_count": ("partitions on the move", "ReassigningPartitions"),
}
BROKER: Final = (
    Single(
        "klamm_broker_partition_count",
        "replicas hosted here",
        lambda b: len(b.parts.replicas.partitions),
        "PartitionCount",
    ),
    Single(
        "klamm_broker_leader_count",
        "partitions led here",
        lambda b: sum(p.is_leader for p in b.parts.replicas.partitions.values()),
        "LeaderCount",
    ),
    Single(
        "klamm_broker_under_replicated_partitions",
        "partitions led here with replicas that are not in sync",
        lambda b: sum(
            p.is_leader and len(p.isr.committed) < len(p.replicas)
            for p in b.parts.replicas.partitions.values()
        ),
        "UnderReplicatedPartitions",
    ),
    Single(
        "klamm_broker_under_min_isr_partition_count",
        "partitions led here with fewer replicas in sync than a write with acks=all needs",
        lambda b: sum(
            p.is_leader and len(p.isr.committed) < p.in_sync_min_effective
            for p in b.parts.replicas.partitions.values()
        ),
        "UnderMinIsrPartitionCount",
    ),
    Single(
        "klamm_broker_offline_log_directory_count",
        "log directories that failed",
        lambda b: len(b.parts.logs.directories) - len(b.parts.logs.online),
        "OfflineLogDirectoryCount",
    ),
    Single(
        "klamm_broker_standby_partition_count",
        "partitions whose states are at hand, should this broker become the controller",
        lambda b: b.parts.controller.standby_partitions,
    ),
    Single(
        "klamm_broker_connection_count",
        "connections that are open",
        lambda b: b.listeners.connection_count,
        "connection-count",
    ),
)
COUNTERS: Final = (
    Single(
        "klamm_controller_unclean_leader_elections",
        "elections of a replica that was not in sync",
        lambda b: b.parts.controller.metrics.unclean_elections,
        "UncleanLeaderElectionsPerSec",
    ),
    Single(
        "klamm_controller_orders_spared",
        "replicas that a new controller did not order anew, because their brokers had them",
        lambda b: b.parts.controller.metrics.orders_spared,
    ),
    Single(
        "klamm_broker_logins",
        "callers that have said who they are, by certificate or SASL",
        lambda b: b.parts.seat.identity.counts.total(counts.LOGINS),
        "successful-authentication-total",
    ),
    Single(
        "klamm_broker_logins_repeated",
        "logins that were repeated before or after their end",
        lambda b: b.parts.seat.identity.counts.total(counts.REPEATED),
        "successful-reauthentication-total",
    ),
    Single(
        "klamm_broker_logins_unrepeatable",
        "logins of clients that cannot repeat them",
        lambda b: b.parts.seat.identity.counts.total(counts.UNREPEATABLE),
        "successful-authentication-no-reauth-total",
    ),
    Single(
        "klamm_broker_logins_failed",
        "handshakes of TLS and logins that failed",
        lambda b: b.parts.seat.identity.counts.total(counts.FAILED),
        "failed-authentication-total",
    ),
    Single(
        "klamm_broker_logins_expired",
        "connections that were closed because their login had ended",
        lambda b: b.parts.seat.identity.counts.total(counts.EXPIRED),
        "expired-connections-killed-count",
    ),
    Single(
        "klamm_broker_bytes_in",
        "bytes of records from producers",
        lambda b: b.parts.metrics.bytes_in,
        "BytesInPerSec",
    ),
    Single(
        "klamm_broker_bytes_out",
        "bytes of records to consumers",
        lambda b: b.parts.metrics.bytes_out,
        "BytesOutPerSec",
    ),
    Single(
        "klamm_broker_messages_in",
        "records from producers",
        lambda b: b.parts.metrics.messages_in,
        "MessagesInPerSec",
    ),
    Single(
        "klamm_broker_replication_bytes_in",
        "bytes of records from leaders",
        lambda b: b.parts.metrics.replication_bytes_in,
        "ReplicationBytesInPerSec",
    ),
    Single(
        "klamm_broker_replication_bytes_out",
        "bytes of records to followers",
        lambda b: b.parts.metrics.replication_bytes_out,
        "ReplicationBytesOutPerSec",
    ),
    Single(
        "klamm_broker_isr_shrinks",
        "replicas that left an in-sync set of a partition led here",
        lambda b: b.parts.metrics.isr_shrinks,
        "IsrShrinksPerSec",
    ),
    Single(
        "klamm_broker_isr_expands",
        "replicas that came into one",
        lambda b: b.parts.metrics.isr_expands,
        "IsrExpandsPerSec",
    ),
)


class Collector:
    """The collector that prometheus_client asks for the metrics of these brokers."""

    def __init__(self, brokers: Mapping[int, Broker]) -> None:
        self._brokers = brokers

    def collect(self) -> Iterator[Metric]:
        brokers = list(self._brokers.items())
        for each in (*CONTROLLER, *BROKER):
            gauge = GaugeMetricFamily(each.name, each.meaning, labels=["broker"])
            for id, broker in brokers:
                gauge.add_metric([str(id)], each.read(broker))
            yield gauge
        yield from self._cluster_gauges()
        for each in COUNTERS:
            counter = CounterMetricFamily(each.name, each.meaning, labels=["broker"])
            for id, broker in brokers:
                counter.add_metric([str(id)], each.read(broker))
            yield counter
        yield from self._events()
        yield from self._requests()
        yield self._throttles()
        yield self._denials()
        yield self._certificates()

    def _cluster_gauges(self) -> Iterator[Metric]:
        read = [(str(id), broker.parts.controller.gauges()) for id, broker in self._brokers.items()]
        for field in fields(Gauges):
            meaning, _ = GAUGES[field.name]
            gauge = GaugeMetricFamily(f"klamm_controller_{field.name}", meaning, labels=["broker"])
            for id, gauges in read:
                gauge.add_metric([id], getattr(gauges, field.name))
            yield gauge

    def _events(self) -> Iterator[Metric]:
        waiting = GaugeMetricFamily(
            "klamm_controller_events_queued",
            "events that wait for the controller, by kind",
            labels=["broker", "event"],
        )
        queued: list[_Series] = []
        worked: list[_Series] = []
        for id, broker in self._brokers.items():
            shell = broker.parts.controller
            for kind, count in shell.queue_sizes().items():
                waiting.add_metric([str(id), kind], count)
            queued += [([str(id), kind], times) for kind, times in shell.metrics.queue_s.items()]
            worked += [
                ([str(id), state.timer], times)
                for state, times in shell.metrics.work_s.items()
                if state not in _UNTIMED
            ]
        yield waiting
        yield _histogram(
            "klamm_controller_event_queue_time_seconds",
            "how long events waited for the controller",
            "event",
            queued,
        )
        yield _histogram(
            "klamm_controller_event_time_seconds",
            "how long the controller worked on events, by what they are about",
            "state",
            worked,
        )

    def _requests(self) -> Iterator[Metric]:
        timed: list[_Series] = []
        busy = CounterMetricFamily(
            "klamm_broker_request_handler_seconds",
            "how long requests kept the broker busy, leaving out what they waited for",
            labels=["broker", "api"],
        )
        for id, broker in self._brokers.items():
            for key, times in broker.parts.metrics.requests.items():
                labels = [str(id), _title(key)]
                timed.append((labels, times))
                busy.add_metric(labels, broker.parts.metrics.handler_s[key])
        yield _histogram(
            "klamm_broker_request_seconds",
            "how long requests took until they were answered",
            "api",
            timed,
        )
        yield busy

    def _throttles(self) -> Metric:
        waits = CounterMetricFamily(
            "klamm_broker_throttle_seconds",
            "how long clients over a quota of bytes, time or connections were told to wait",
            labels=["broker", "quota"],
        )
        for id, broker in self._brokers.items():
            for quota, wait_ms in broker.parts.quotas.waits_ms.items():
                waits.add_metric([str(id), quota], wait_ms / 1000)
        return waits

    def _denials(self) -> Metric:
        denied = CounterMetricFamily(
            "klamm_broker_authorization_denials",
            "requests, or parts of them, that the caller had no right to, by API",
            labels=["broker", "api"],
        )
        for id, broker in self._brokers.items():
            for api, count in broker.parts.access.audit.denials.items():
                denied.add_metric([str(id), api], count)
        return denied

    def _certificates(self) -> Metric:
        ends = GaugeMetricFamily(
            "klamm_broker_certificate_end_seconds",
            "when the certificate that a listener shows ends, in seconds of Unix",
            labels=["broker", "listener"],
        )
        for id, broker in self._brokers.items():
            for listener, ends_s in broker.parts.seat.identity.certificates_end().items():
                ends.add_metric([str(id), listener], ends_s)
        return ends


_Series = tuple[list[str], Histogram]


def _histogram(name: str, meaning: str, label: str, series: Iterable[_Series]) -> Metric:
    family = HistogramMetricFamily(name, meaning, labels=["broker", label])
    for labels, histogram in series:
        buckets = list(zip(_LIMITS, accumulate(histogram.counts), strict=True))
        family.add_metric(labels, buckets, histogram.sum_s)
    return family


def _title(api_key: int) -> str:
    api = APIS.get(api_key)
    return api.title if api else f"private {api_key}"
