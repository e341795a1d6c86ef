"""Single requests to chosen brokers of a cluster, byte for byte as a client would send them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from klamm import Cluster
from klamm.client.aio.connection import Connection
from klamm.model.errors import ErrorCode
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import (
    alter_client_quotas,
    create_partitions,
    create_topics,
    delete_topics,
    incremental_alter_configs,
)
from klamm.store.port import Session

T = TypeVar("T")
LONG_MS = 20_000
TOPIC, BROKER = 2, 4
SET = 0
Change = tuple[str, int, str | None]  # name, operation, value


class Wire:
    """Asks the brokers of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def ask(
        self, key: ApiKey, version: int, request: Any, *, broker: int | None = None, name: str = "c"
    ) -> Any:
        """The answer of a broker, by default of the controller."""
        to = self.cluster.controller_id if broker is None else broker
        assert to is not None, "the cluster has no controller"
        endpoint = self.cluster._app.brokers[to].endpoint

        async def exchange() -> Any:
            connection = await Connection.open(endpoint.host, endpoint.port, name)
            try:
                return await connection.request(key, version, request)
            finally:
                await connection.close()

        return asyncio.run(exchange())

    def in_store(self, work: Callable[[Session], Awaitable[T]]) -> T:
        """Do by hand what an operator might do in the store."""

        async def run() -> T:
            session = await self.cluster._app.store.connect()
            try:
                return await work(session)
            finally:
                await session.close()

        return self.cluster._run(run())

    @property
    def other(self) -> int:
        """A broker that is not the controller."""
        return next(b for b in self.cluster.running if b != self.cluster.controller_id)

    def create(
        self,
        *topics: create_topics.CreatableTopic,
        version: int = 7,
        timeout_ms: int = LONG_MS,
        validate_only: bool = False,
        **where: Any,
    ) -> list[create_topics.CreatableTopicResult]:
        request = create_topics.Request(list(topics), timeout_ms, validate_only)
        response: create_topics.Response = self.ask(ApiKey.CREATE_TOPICS, version, request, **where)
        return response.topics

    def grow(
        self,
        *topics: create_partitions.CreatePartitionsTopic,
        version: int = 3,
        timeout_ms: int = LONG_MS,
        validate_only: bool = False,
        **where: Any,
    ) -> list[create_partitions.CreatePartitionsTopicResult]:
        request = create_partitions.Request(list(topics), timeout_ms, validate_only)
        response: create_partitions.Response = self.ask(
            ApiKey.CREATE_PARTITIONS, version, request, **where
        )
        return response.results

    def delete(
        self,
        *topics: str | delete_topics.DeleteTopicState,
        version: int = 6,
        timeout_ms: int = LONG_MS,
        **where: Any,
    ) -> list[delete_topics.DeletableTopicResult]:
        states = [
            delete_topics.DeleteTopicState(name=t) if isinstance(t, str) else t for t in topics
        ]
        names = [state.name or "" for state in states]
        if version >= 6:
            request = delete_topics.Request(topics=states, timeout_ms=timeout_ms)
        else:
            request = delete_topics.Request(topic_names=names, timeout_ms=timeout_ms)
        response: delete_topics.Response = self.ask(ApiKey.DELETE_TOPICS, version, request, **where)
        return response.responses

    def alter(
        self, kind: int, name: str, *changes: Change, validate_only: bool = False, **where: Any
    ) -> Any:
        """The answer of IncrementalAlterConfigs for one resource."""
        configs = [incremental_alter_configs.AlterableConfig(*change) for change in changes]
        resource = incremental_alter_configs.AlterConfigsResource(kind, name, configs)
        request = incremental_alter_configs.Request([resource], validate_only)
        response = self.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request, **where)
        return response.responses[0]

    def settle(self) -> None:
        """Wait until every change of settings is in force on every broker."""
        for broker in self.cluster._app.brokers.values():
            self.cluster._run(broker.parts.dynamic_config.caught_up())

    def limit_changes(self, client_id: str) -> None:
        """Let a client change one partition a second, with a burst of eleven."""
        entity = [alter_client_quotas.EntityData("client-id", client_id)]
        op = alter_client_quotas.OpData("controller_mutation_rate", 1.0)
        request = alter_client_quotas.Request([alter_client_quotas.EntryData(entity, [op])])
        (entry,) = self.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, request).entries
        check(entry, ErrorCode.NONE, None)
        self.settle()


def topic(
    name: str,
    partitions: int = -1,
    factor: int = -1,
    *,
    assigned: Mapping[int, Sequence[int]] | None = None,
    configs: Mapping[str, str | None] | None = None,
) -> create_topics.CreatableTopic:
    """A topic to create."""
    return create_topics.CreatableTopic(
        name,
        partitions,
        factor,
        [
            create_topics.CreatableReplicaAssignment(n, list(brokers))
            for n, brokers in (assigned or {}).items()
        ],
        [create_topics.CreatableTopicConfig(k, v) for k, v in (configs or {}).items()],
    )


def growth(
    name: str, count: int, assigned: Iterable[Sequence[int]] | None = None
) -> create_partitions.CreatePartitionsTopic:
    """A topic to give more partitions."""
    return create_partitions.CreatePartitionsTopic(
        name,
        count,
        None
        if assigned is None
        else [create_partitions.CreatePartitionsAssignment(list(each)) for each in assigned],
    )


def codes(results: Iterable[Any]) -> list[ErrorCode]:
    """What each entry of a response was answered with."""
    return [ErrorCode(result.error_code) for result in results]


def check(result: Any, code: ErrorCode, words: str | None) -> None:
    """One refusal: its code, and words of its message (None: there must be no message)."""
    assert ErrorCode(result.error_code) is code, result
    if words is None:
        assert result.error_message is None, result
    else:
        assert words in (result.error_message or ""), result
