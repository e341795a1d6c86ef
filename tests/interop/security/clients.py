"""Three clients, each doing the same: create, produce, consume in a group, in a transaction.

What a client says when it is not let in, or may not do something, is turned into a few words.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import confluent_kafka
import kafka
import kafka.errors
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import errors as aio_errors
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from aiokafka.client import AIOKafkaClient
from confluent_kafka.admin import AdminClient, NewTopic

Config = Mapping[str, Any]
PATIENCE_S: Final = 20
_KNOCK_MS: Final = 700  # kafka-python goes on trying for as long as it may
NOT_LET_IN: Final = "not let in"
DENIED: Final = "denied"
VALUE: Final = b"a coat"


class Client(Protocol):
    """What a client can be told to do with its settings."""

    name: str

    def live(self, config: Config, name: str) -> list[bytes]:
        """Create a topic, write to it in a transaction, and read it in a group, all so named."""
        ...

    def knock(self, config: Config) -> str:
        """Try to get in; what comes of it."""
        ...

    def write(self, config: Config, topic: str) -> str:
        """Try to write to a topic; what comes of it."""
        ...


class Confluent:
    """librdkafka."""

    name = "confluent-kafka"

    def live(self, config: Config, name: str) -> list[bytes]:
        admin = AdminClient(dict(config))
        admin.create_topics([NewTopic(name, 1, 2)])[name].result(PATIENCE_S)
        producer = confluent_kafka.Producer({**config, "transactional.id": name})
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        producer.produce(name, VALUE)
        producer.commit_transaction(PATIENCE_S)
        consumer = confluent_kafka.Consumer(
            {
                **config,
                "group.id": name,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        try:
            consumer.subscribe([name])
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            assert message.error() is None, message.error()
            consumer.commit(asynchronous=False)
            return [message.value()]
        finally:
            consumer.close()

    def knock(self, config: Config) -> str:
        faults: list[confluent_kafka.KafkaError] = []
        admin = AdminClient({**config, "error_cb": faults.append, "log_level": 0})
        refused = {confluent_kafka.KafkaError._AUTHENTICATION, confluent_kafka.KafkaError._SSL}
        for _ in range(PATIENCE_S * 10):
            admin.poll(0.1)
            with contextlib.suppress(confluent_kafka.KafkaException):
                admin.list_topics(timeout=0.1)
                return "let in"
            if any(fault.code() in refused or " alert " in fault.str() for fault in faults):
                return NOT_LET_IN
        return f"nothing but {[fault.str() for fault in faults]}"

    def write(self, config: Config, topic: str) -> str:
        heard: list[confluent_kafka.KafkaError | None] = []
        producer = confluent_kafka.Producer({**config, "log_level": 0})
        producer.produce(topic, VALUE, on_delivery=lambda fault, _: heard.append(fault))
        producer.flush(PATIENCE_S)
        (fault,) = heard
        denied = confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED
        return "written" if fault is None else DENIED if fault.code() == denied else fault.str()


class KafkaPython:
    """kafka-python."""

    name = "kafka-python"

    def live(self, config: Config, name: str) -> list[bytes]:
        admin = kafka.KafkaAdminClient(**config)
        try:
            admin.create_topics({name: {"num_partitions": 1, "replication_factor": 2}})
        finally:
            admin.close()
        producer = kafka.KafkaProducer(**config, transactional_id=name)
        try:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(name, VALUE)
            producer.commit_transaction()
        finally:
            producer.close()
        consumer = kafka.KafkaConsumer(
            name,
            **config,
            group_id=name,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            consumer_timeout_ms=PATIENCE_S * 1000,
        )
        try:
            found = [next(iter(consumer)).value]
            consumer.commit()
            return found
        finally:
            consumer.close()

    def knock(self, config: Config) -> str:
        outcome = "let in"
        try:
            kafka.KafkaAdminClient(**config, bootstrap_timeout_ms=_KNOCK_MS).close()
        except kafka.errors.KafkaError:
            outcome = NOT_LET_IN
        with warnings.catch_warnings():
            # It leaves sockets open behind it when a broker refused it.
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
        return outcome

    def write(self, config: Config, topic: str) -> str:
        producer = kafka.KafkaProducer(**config, max_block_ms=4000)
        try:
            producer.send(topic, VALUE).get(timeout=PATIENCE_S)
        except kafka.errors.TopicAuthorizationFailedError:
            return DENIED
        except kafka.errors.KafkaError as fault:
            return str(fault)
        finally:
            producer.close(timeout=1)
        return "written"


class Aiokafka:
    """aiokafka."""

    name = "aiokafka"

    def live(self, config: Config, name: str) -> list[bytes]:
        return asyncio.run(self._live(config, name))

    async def _live(self, config: Config, name: str) -> list[bytes]:
        admin = AIOKafkaAdminClient(**config)
        await admin.start()
        try:
            answer = await admin.create_topics([AioNewTopic(name, 1, 2)])
            assert [error[1] for error in answer.topic_errors] == [0], answer
        finally:
            await admin.close()
        producer = AIOKafkaProducer(**config, transactional_id=name)
        async with producer, producer.transaction():
            await producer.send(name, VALUE)
        consumer = AIOKafkaConsumer(
            name,
            **config,
            group_id=name,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        async with consumer:
            message = await asyncio.wait_for(consumer.getone(), PATIENCE_S)
            await consumer.commit()
            return [message.value]

    def knock(self, config: Config) -> str:
        async def main() -> None:
            client = AIOKafkaClient(**config)
            try:
                await client.bootstrap()
                # It takes the answer to whoever has not logged in for one without brokers.
                if not client.cluster.brokers():
                    raise aio_errors.KafkaConnectionError("no brokers were told of")
            finally:
                await client.close()

        try:
            asyncio.run(main())
        except aio_errors.KafkaError:
            return NOT_LET_IN
        return "let in"

    def write(self, config: Config, topic: str) -> str:
        async def main() -> None:
            async with AIOKafkaProducer(**config, request_timeout_ms=4000) as producer:
                await producer.send_and_wait(topic, VALUE)

        try:
            asyncio.run(main())
        except aio_errors.TopicAuthorizationFailedError:
            return DENIED
        except aio_errors.KafkaError as fault:
            return repr(fault)
        return "written"


CLIENTS: Final[tuple[Callable[[], Client], ...]] = (Confluent, KafkaPython, Aiokafka)
