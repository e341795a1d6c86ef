"""The ledger names who asked for what it tells."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from interop.wire import SET, TOPIC, Wire, topic
from klamm import Cluster
from klamm.model.names import ZERO_ID
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import (
    alter_partition_reassignments,
    create_partitions,
    elect_leaders,
    metadata,
)
from klamm.protocol.messages import incremental_alter_configs as altering
from klamm.store import layout
from klamm.store.port import Create, SetData

BY = re.compile(r"User:ANONYMOUS \(client (.+) at 127\.0\.0\.1\)")


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with Cluster(2) as cluster:
        yield Wire(cluster)


def story(wire: Wire, name: str) -> list[dict[str, Any]]:
    controller = wire.cluster.controller_id
    assert controller is not None
    parts = wire.cluster._app.brokers[controller].parts

    async def read() -> list[dict[str, Any]]:
        return list(parts.controller.story(name))

    return wire.cluster._run(read())


def clients(wire: Wire, name: str, cause: str) -> set[str]:
    """The clients that are named as those who asked, '' where nobody is."""
    told = [entry.get("by", "") for entry in story(wire, name) if entry["cause"] == cause]
    assert told, f"nothing of {name} was caused by {cause}"
    found = [BY.fullmatch(by) for by in told]
    return {match[1] if match else by for match, by in zip(found, told, strict=True)}


def test_a_topic_is_created_grown_and_deleted_by_somebody(wire: Wire) -> None:
    wire.create(topic("t", 1, 1), name="maker")
    wire.grow(create_partitions.CreatePartitionsTopic("t", 3, None), name="grower")
    wire.delete("t", name="killer")
    assert clients(wire, "t", "TopicsChanged") == {"maker"}
    assert clients(wire, "t", "TopicModified") == {"grower"}
    assert clients(wire, "t", "MarkersChanged") == {"killer"}


def test_two_topics_of_one_moment_have_their_own_makers(wire: Wire) -> None:
    wire.create(topic("one", 1, 1), topic("two", 1, 1), name="both")
    wire.create(topic("three", 1, 1), name="last")
    assert clients(wire, "two", "TopicsChanged") == {"both"}
    assert clients(wire, "three", "TopicsChanged") == {"last"}


def test_a_topic_that_came_by_asking_for_it_is_somebodys_too(wire: Wire) -> None:
    request = metadata.Request([metadata.MetadataRequestTopic(ZERO_ID, "auto")])
    wire.ask(ApiKey.METADATA, 12, request, name="curious")
    wire.cluster.wait_for_topic("auto")
    assert clients(wire, "auto", "TopicsChanged") == {"curious"}
    elsewhere = metadata.Request([metadata.MetadataRequestTopic(ZERO_ID, "sent-on")])
    wire.ask(ApiKey.METADATA, 12, elsewhere, name="curious", broker=wire.other)
    wire.cluster.wait_for_topic("sent-on")
    (told,) = clients(wire, "sent-on", "TopicsChanged")
    assert told == "User:ANONYMOUS (client curious at 127.0.0.1) through a broker at 127.0.0.1"


def test_moves_and_elections_are_asked_for_by_somebody(wire: Wire) -> None:
    wire.create(topic("m", assigned={0: [0, 1]}), name="maker")
    partition = alter_partition_reassignments.ReassignablePartition(0, [1, 0])
    moved = alter_partition_reassignments.ReassignableTopic("m", [partition])
    request = alter_partition_reassignments.Request(10_000, [moved])
    wire.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, request, name="mover")
    wire.cluster.wait_for_isr("m")
    asked = elect_leaders.Request(0, [elect_leaders.TopicPartitions("m", [0])], 10_000)
    wire.ask(ApiKey.ELECT_LEADERS, 2, asked, name="voter")
    assert clients(wire, "m", "ReassignmentsAsked") == {"mover"}
    assert clients(wire, "m", "ElectionsAsked") == {"voter"}


def freeze(wire: Wire, name: str, value: str, client: str, broker: int | None = None) -> None:
    change = altering.AlterableConfig("klamm.frozen", SET, value)
    request = altering.Request([altering.AlterConfigsResource(TOPIC, name, [change])])
    wire.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request, name=client, broker=broker)


def test_a_freeze_is_somebodys(wire: Wire) -> None:
    wire.create(topic("f", 1, 1), name="maker")
    freeze(wire, "f", "true", "freezer")
    wire.settle()
    wire.delete("f")
    assert clients(wire, "f", "FreezeSwitched") == {"freezer"}


def test_settings_changed_through_another_broker_are_somebodys(wire: Wire) -> None:
    wire.create(topic("g", 1, 1), name="maker")
    freeze(wire, "g", "true", "freezer", wire.other)
    wire.settle()
    wire.delete("g")
    (told,) = clients(wire, "g", "FreezeSwitched")
    assert told == "User:ANONYMOUS (client freezer at 127.0.0.1) through a broker at 127.0.0.1"


@pytest.mark.parametrize("through", ["controller", "other"])
def test_a_change_of_settings_that_failed_is_nobodys_later(wire: Wire, through: str) -> None:
    name = f"failed-{through}"
    wire.create(topic(name, 1, 1), name="maker")
    broker = wire.other if through == "other" else None
    freeze(wire, name, "perhaps", "fumbler", broker)

    async def by_hand(session: Any) -> None:
        entity = layout.ConfigEntity(layout.ConfigKind.TOPIC, name)
        announced = layout.encode_config_change(entity)
        await session.multi(
            [
                SetData(entity.path, layout.encode_config({"klamm.frozen": "true"})),
                Create(layout.CONFIG_CHANGE_PREFIX, announced, sequential=True),
            ]
        )

    wire.in_store(by_hand)
    wire.settle()
    wire.delete(name)
    assert clients(wire, name, "FreezeSwitched") == {""}


def test_what_a_hand_did_is_nobodys_even_after_a_request_that_failed(wire: Wire) -> None:
    wire.create(topic("hand", 1, 99), name="too many replicas")
    wire.create(topic("hand", 1, 1), name="only asks", validate_only=True)
    wire.create(topic("other", 1, 1), name="other")

    async def by_hand(session: Any) -> None:
        node = await session.get(layout.topic_path("other"))
        made = layout.decode_topic(node.data)
        assert made is not None
        fresh = layout.TopicNode(None, made.assignments)
        await session.multi([Create(layout.topic_path("hand"), layout.encode_topic(fresh))])

    wire.in_store(by_hand)
    wire.cluster.wait_for_topic("hand")
    assert clients(wire, "hand", "TopicsChanged") == {""}


def test_a_client_cannot_forge_a_line(wire: Wire) -> None:
    name = 'x","by":"User:admin (client \n' + "y" * 500
    wire.create(topic("forged", 1, 1), name=name)
    (told,) = {entry["by"] for entry in story(wire, "forged")}
    assert told.startswith('User:ANONYMOUS (client x","by":"User:admin (client \\n')
    assert len(told) < 200
    assert "\n" not in told
