"""Transactions with real clients: atomic, isolated, fenced, exactly once in spite of crashes."""

from __future__ import annotations

import itertools
import threading
from collections import Counter

import confluent_kafka
import kafka
import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from klamm import Cluster
from klamm.broker.coordinators.journal import partition_for
from klamm.model.names import CONSUMER_OFFSETS, TRANSACTION_STATE

pytestmark = [
    pytest.mark.interop,
    # kafka-python leaves the sockets open with which it tried to reach a dead broker.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.klamm(
        settings={
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.num.partitions": "3",
        }
    ),
]


def transactional(cluster: Cluster, name: str = "x", **more: object) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": name,
            "transaction.timeout.ms": 20_000,
            **more,
        }
    )
    producer.init_transactions(30)
    return producer


def read_all(cluster: Cluster, topic: str, partitions: int, *, committed: bool) -> list[bytes]:
    """Everything visible now, up to the end that the isolation level allows."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "reader",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, n, 0) for n in range(partitions)])
    found: list[bytes] = []
    ends: set[int] = set()
    try:
        while len(ends) < partitions:
            message = consumer.poll(10)
            assert message is not None, f"no end after {len(found)} records"
            if message.error() is None:
                found.append(message.value() or b"")
            elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                ends.add(message.partition())
    finally:
        consumer.close()
    return found


def test_only_committed_transactions_are_read(klamm_cluster: Cluster) -> None:
    klamm_cluster.create_topic("t", partitions=2, replication_factor=3)
    producer = transactional(klamm_cluster)
    for number, commit in enumerate([True, False, True, False]):
        producer.begin_transaction()
        for partition in range(2):
            producer.produce("t", b"%d-%d" % (number, partition), partition=partition)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.flush(10)
            producer.abort_transaction(30)
    visible = read_all(klamm_cluster, "t", 2, committed=True)
    assert sorted(visible) == [b"0-0", b"0-1", b"2-0", b"2-1"]
    assert len(read_all(klamm_cluster, "t", 2, committed=False)) == 8


def test_open_transaction_holds_readers_back_until_it_ends(klamm_cluster: Cluster) -> None:
    klamm_cluster.create_topic("t", partitions=1, replication_factor=3)
    producer = transactional(klamm_cluster)
    producer.begin_transaction()
    producer.produce("t", b"open")
    producer.flush(10)
    plain = Producer({"bootstrap.servers": klamm_cluster.bootstrap_servers})
    plain.produce("t", b"behind")
    plain.flush(10)
    assert read_all(klamm_cluster, "t", 1, committed=True) == []
    producer.commit_transaction(30)
    assert read_all(klamm_cluster, "t", 1, committed=True) == [b"open", b"behind"]


def test_a_topic_is_deleted_under_an_open_transaction(klamm_cluster: Cluster) -> None:
    """Its marker has nowhere to go, and the others and the next transactions do not wait for it."""
    for topic in ("stays", "goes"):
        klamm_cluster.create_topic(topic, partitions=1, replication_factor=3)
    admin = AdminClient({"bootstrap.servers": klamm_cluster.bootstrap_servers})
    producer = transactional(klamm_cluster)
    producer.begin_transaction()
    for topic in ("stays", "goes"):
        producer.produce(topic, b"first")
    assert producer.flush(30) == 0
    admin.delete_topics(["goes"], operation_timeout=30)["goes"].result()
    klamm_cluster.wait_for_no_topic("goes")
    producer.commit_transaction(30)
    producer.begin_transaction()
    producer.produce("stays", b"second")
    producer.commit_transaction(30)
    assert read_all(klamm_cluster, "stays", 1, committed=True) == [b"first", b"second"]


def test_second_producer_of_one_id_fences_the_first(klamm_cluster: Cluster) -> None:
    klamm_cluster.create_topic("t", partitions=1, replication_factor=3)
    old = transactional(klamm_cluster)
    old.begin_transaction()
    old.produce("t", b"old")
    old.flush(10)
    new = transactional(klamm_cluster)
    new.begin_transaction()
    new.produce("t", b"new")
    new.commit_transaction(30)
    with pytest.raises(KafkaException, match=r"FENCED|INVALID_PRODUCER_EPOCH"):
        old.commit_transaction(30)
    assert read_all(klamm_cluster, "t", 1, committed=True) == [b"new"]


def test_kafka_python_transactions(klamm_cluster: Cluster) -> None:
    klamm_cluster.create_topic("t", partitions=1, replication_factor=3)
    producer = kafka.KafkaProducer(
        bootstrap_servers=klamm_cluster.bootstrap_servers.split(","), transactional_id="kp"
    )
    producer.init_transactions()
    for commit, value in ((True, b"kept"), (False, b"dropped")):
        producer.begin_transaction()
        producer.send("t", value).get(10)
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()
    assert read_all(klamm_cluster, "t", 1, committed=True) == [b"kept"]


@pytest.mark.klamm(settings={"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"})
def test_transaction_of_a_silent_producer_is_aborted(klamm_cluster: Cluster) -> None:
    klamm_cluster.create_topic("t", partitions=1, replication_factor=3)
    silent = transactional(klamm_cluster, "silent", **{"transaction.timeout.ms": 1_000})
    silent.begin_transaction()
    silent.produce("t", b"never")
    silent.flush(10)
    plain = Producer({"bootstrap.servers": klamm_cluster.bootstrap_servers})
    plain.produce("t", b"plain")
    plain.flush(10)
    consumer = Consumer(
        {
            "bootstrap.servers": klamm_cluster.bootstrap_servers,
            "group.id": "reader",
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    assert message.value() == b"plain"


def test_transactions_are_listed_and_described(klamm_cluster: Cluster) -> None:
    klamm_cluster.create_topic("t", partitions=1, replication_factor=3)
    producer = transactional(klamm_cluster, "shown")
    producer.begin_transaction()
    producer.produce("t", b"open")
    producer.flush(10)
    admin = kafka.KafkaAdminClient(bootstrap_servers=klamm_cluster.bootstrap_servers.split(","))
    try:
        if not hasattr(admin, "describe_transactions"):
            pytest.skip("this kafka-python cannot describe transactions")
        shown = admin.describe_transactions(["shown"])
        assert "Ongoing" in str(shown)
    finally:
        admin.close()
        producer.abort_transaction(30)


class _Processor(threading.Thread):
    """Reads `in`, writes `out` and commits its offsets, each batch in one transaction."""

    def __init__(self, cluster: Cluster, total: int) -> None:
        super().__init__(daemon=True, name="processor")
        self._servers = cluster.bootstrap_servers
        self._cluster = cluster
        self._total = total
        self.halt = threading.Event()
        self.transactions = 0
        self.fault: BaseException | None = None

    def run(self) -> None:
        try:
            for incarnation in itertools.count():
                if self.halt.is_set() or self._process(incarnation):
                    return
        except BaseException as fault:  # noqa: BLE001 - shown by the test
            self.fault = fault

    def _process(self, incarnation: int) -> bool:
        """Work until done, or until an error that asks for a new start."""
        producer = transactional(self._cluster, "processor")
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "processors",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 500,
                "enable.partition.eof": True,
            }
        )
        consumer.subscribe(["in"])
        ends: set[int] = set()
        try:
            while not self.halt.is_set():
                messages = consumer.consume(20, 0.5)
                good = [m for m in messages if m.error() is None]
                for message in messages:
                    error = message.error()
                    if error is not None and error.code() == -191:
                        ends.add(message.partition())
                    elif error is None:
                        ends.discard(message.partition())
                if not good:
                    continue
                producer.begin_transaction()
                for message in good:
                    producer.produce("out", message.value(), partition=message.partition())
                producer.send_offsets_to_transaction(
                    consumer.position(consumer.assignment()),
                    consumer.consumer_group_metadata(),
                    30,
                )
                producer.commit_transaction(30)
                self.transactions += 1
        except KafkaException as error:
            fault = error.args[0]
            if fault.txn_requires_abort():
                producer.abort_transaction(30)
            return False
        else:
            return True
        finally:
            consumer.close()


def test_read_process_write_is_exactly_once_while_brokers_are_killed(
    klamm_cluster: Cluster,
) -> None:
    total = 2_000
    for topic in ("in", "out"):
        klamm_cluster.create_topic(topic, partitions=2, replication_factor=3)
    feeder = Producer(
        {"bootstrap.servers": klamm_cluster.bootstrap_servers, "enable.idempotence": True}
    )
    values = [b"%05d" % number for number in range(total)]
    for number, value in enumerate(values):
        feeder.produce("in", value, partition=number % 2)
    assert feeder.flush(30) == 0
    processor = _Processor(klamm_cluster, total)
    processor.start()
    try:
        victims = [
            lambda: klamm_cluster.wait_for_leader(TRANSACTION_STATE, partition_for("processor", 3)),
            lambda: klamm_cluster.wait_for_leader("out", 0),
            lambda: klamm_cluster.wait_for_leader(CONSUMER_OFFSETS, partition_for("processors", 3)),
            lambda: klamm_cluster.wait_for_leader("out", 1),
        ]
        klamm_cluster.wait_for_topic(TRANSACTION_STATE)
        klamm_cluster.wait_for_topic(CONSUMER_OFFSETS)
        for victim in victims:
            broker = victim()
            klamm_cluster.kill_broker(broker)
            klamm_cluster.wait_for_controller()
            klamm_cluster.start_broker(broker)
            for topic in ("in", "out", TRANSACTION_STATE, CONSUMER_OFFSETS):
                klamm_cluster.wait_for_isr(topic, size=3)
        _wait_for_output(klamm_cluster, total, processor)
    finally:
        processor.halt.set()
        processor.join(60)
    assert processor.fault is None, processor.fault
    counts = Counter(read_all(klamm_cluster, "out", 2, committed=True))
    assert {v: n for v, n in counts.items() if n != 1} == {}
    assert counts.keys() == set(values)


def _wait_for_output(cluster: Cluster, total: int, processor: _Processor) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "watcher",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([confluent_kafka.TopicPartition("out", n, 0) for n in range(2)])
    seen = 0
    try:
        while seen < total:
            message = consumer.poll(60)
            assert message is not None, f"{seen} of {total} came out, {processor.fault}"
            seen += message.error() is None
    finally:
        consumer.close()
