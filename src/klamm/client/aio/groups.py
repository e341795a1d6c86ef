"""Offers each request about consumer groups and transactions as one call.

Groups live at their coordinators: a list is put together from all brokers, everything else goes to
the one that coordinates the group.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from klamm.client import requests
from klamm.client.aio.cluster import Client
from klamm.client.errors import code_of
from klamm.client.metadata import TRANSACTION_KEY
from klamm.client.requests import by_topic
from klamm.model.errors import ErrorCode, RequestRefused
from klamm.model.names import TopicPartition
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import (
    consumer_group_describe,
    delete_groups,
    describe_groups,
    describe_transactions,
    list_groups,
    list_transactions,
    offset_delete,
    offset_fetch,
)

Committed = offset_fetch.OffsetFetchResponsePartitions | offset_fetch.OffsetFetchResponsePartition


class Groups:
    """An operator's view of the groups of a cluster."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def all(
        self, states: Sequence[str] = (), types: Sequence[str] = ()
    ) -> list[list_groups.ListedGroup]:
        """All groups, or those in one of these states or of these types, by name."""
        request = list_groups.Request(states_filter=[*states], types_filter=[*types])
        answers = await self._everywhere(ApiKey.LIST_GROUPS, request)
        groups = {g.group_id: g for answer in answers for g in answer.groups}
        return [groups[name] for name in sorted(groups)]

    async def describe(self, group: str) -> describe_groups.DescribedGroup:
        """A group and its members; the state of one that nobody knows is Dead."""
        request = describe_groups.Request(groups=[group])
        response: describe_groups.Response = await self.client.at_coordinator(
            group, ApiKey.DESCRIBE_GROUPS, request
        )
        return response.groups[0]

    async def describe_consumer(self, group: str) -> consumer_group_describe.DescribedGroup:
        """A group of the new protocol; GROUP_ID_NOT_FOUND when it is of the classic one."""
        request = consumer_group_describe.Request(group_ids=[group])
        response: consumer_group_describe.Response = await self.client.at_coordinator(
            group, ApiKey.CONSUMER_GROUP_DESCRIBE, request
        )
        return response.groups[0]

    async def delete(self, group: str) -> ErrorCode:
        """Deletes a group without members, with its offsets."""
        request = delete_groups.Request(groups_names=[group])
        response = await self.client.at_coordinator(group, ApiKey.DELETE_GROUPS, request)
        return code_of(response.results[0].error_code)

    async def offsets(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Committed]:
        """The offsets that the group has committed for these partitions, or for all."""
        request = requests.group_offsets(group, partitions)
        response = await self.client.at_coordinator(
            group, ApiKey.OFFSET_FETCH, request, at_most=requests.OFFSETS_BY_NAME
        )
        return requests.group_offsets_of(group, response)

    async def set_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ErrorCode]:
        """Commits offsets for a group that has no members now."""
        committed = {tp: requests.Committed(offset) for tp, offset in offsets.items()}
        request = requests.commit(group, committed)
        response = await self.client.at_coordinator(
            group, ApiKey.OFFSET_COMMIT, request, at_most=requests.OFFSETS_BY_NAME
        )
        return _codes(response.topics)

    async def delete_offsets(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Forgets what a group has committed for these partitions."""
        topics = [
            offset_delete.OffsetDeleteRequestTopic(
                topic, [offset_delete.OffsetDeleteRequestPartition(n) for n in numbers]
            )
            for topic, numbers in by_topic(partitions).items()
        ]
        request = offset_delete.Request(group, topics)
        response = await self.client.at_coordinator(group, ApiKey.OFFSET_DELETE, request)
        if response.error_code:
            raise RequestRefused(code_of(response.error_code))
        return _codes(response.topics)

    async def transactions(
        self, states: Sequence[str] = ()
    ) -> list[list_transactions.TransactionState]:
        """All transactional ids, or those in one of these states."""
        request = list_transactions.Request(state_filters=[*states])
        answers = await self._everywhere(ApiKey.LIST_TRANSACTIONS, request)
        return [state for answer in answers for state in answer.transaction_states]

    async def transaction(self, transactional_id: str) -> describe_transactions.TransactionState:
        """One transactional id: its producer, its state, the partitions in it."""
        request = describe_transactions.Request(transactional_ids=[transactional_id])
        response: describe_transactions.Response = await self.client.at_coordinator(
            transactional_id, ApiKey.DESCRIBE_TRANSACTIONS, request, kind=TRANSACTION_KEY
        )
        return response.transaction_states[0]

    async def _everywhere(self, key: ApiKey, request: Any) -> Sequence[Any]:
        picture = await self.client.refresh([])
        asked = (self.client.at_node(node_id, key, request) for node_id in picture.nodes)
        answers = await asyncio.gather(*asked)
        for answer in answers:
            if answer.error_code:
                raise RequestRefused(code_of(answer.error_code))
        return answers


def _codes(topics: Iterable[Any]) -> dict[TopicPartition, ErrorCode]:
    return {tp: code_of(p.error_code) for tp, p in requests.per_partition(topics).items()}
