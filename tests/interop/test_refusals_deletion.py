"""Every way in which DeleteTopics says no, over the wire, and what becomes of strange markers."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from interop.wire import Wire, check, codes, topic
from klamm import Cluster
from klamm.broker.admin.waiting import until_absent
from klamm.model.errors import ErrorCode as E
from klamm.protocol.messages.delete_topics import DeleteTopicState
from klamm.store import layout
from klamm.store.port import Create, Session


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with Cluster(2) as cluster:
        wire = Wire(cluster)
        assert codes(wire.create(topic("t", 2, 2))) == [E.NONE]
        yield wire


def test_only_the_controller_deletes(wire: Wire) -> None:
    for version in range(1, 7):
        (result,) = wire.delete("t", broker=wire.other, version=version)
        check(result, E.NOT_CONTROLLER, None)
        assert result.name == "t"


def test_an_unknown_topic_is_refused_and_its_neighbour_is_not(wire: Wire) -> None:
    for version in range(1, 7):
        assert codes(wire.create(topic(f"neighbour{version}", 1, 1))) == [E.NONE]
        unknown, fine = wire.delete("unknown", f"neighbour{version}", version=version)
        check(
            unknown,
            E.UNKNOWN_TOPIC_OR_PARTITION,
            "This server does not host this topic-partition." if version >= 5 else None,
        )
        check(fine, E.NONE, None)


def test_an_unknown_id_is_refused(wire: Wire) -> None:
    strange = uuid.uuid4()
    for state in (DeleteTopicState(None, strange), DeleteTopicState(None)):
        (result,) = wire.delete(state)
        check(result, E.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        assert (result.name, result.topic_id) == (None, state.topic_id)


def test_a_name_and_an_id_together_spoil_the_whole_request(wire: Wire) -> None:
    results = wire.delete("t", DeleteTopicState("t", uuid.uuid4()))
    assert codes(results) == [E.INVALID_REQUEST, E.INVALID_REQUEST]
    assert "Topic name and topic ID can not both be specified." in (results[0].error_message or "")
    assert wire.cluster.partition("t") is not None


def test_a_topic_is_deleted_by_its_id(wire: Wire) -> None:
    (created,) = wire.create(topic("by-id", 1, 1))
    (result,) = wire.delete(DeleteTopicState(None, created.topic_id))
    check(result, E.NONE, None)
    assert (result.name, result.topic_id) == ("by-id", created.topic_id)


def test_no_time_to_wait_deletes_and_says_so(wire: Wire) -> None:
    assert codes(wire.create(topic("hasty", 1, 1))) == [E.NONE]
    (result,) = wire.delete("hasty", timeout_ms=0)
    check(result, E.REQUEST_TIMED_OUT, "no time to wait")
    wire.cluster.wait_for_no_topic("hasty")


@pytest.mark.parametrize("version", range(1, 7))
def test_deletion_can_be_switched_off(version: int) -> None:
    with Cluster(1, **{"delete.topic.enable": "false"}) as cluster:
        wire = Wire(cluster)
        assert codes(wire.create(topic("t"))) == [E.NONE]
        code = E.TOPIC_DELETION_DISABLED if version >= 3 else E.INVALID_REQUEST
        for result in wire.delete("t", "unknown", version=version):
            check(result, code, "delete.topic.enable is false" if version >= 5 else None)


def guard(name: str) -> str | None:
    return f"{name} is needed" if name.startswith("ledger") else None


def test_a_policy_refuses_with_its_own_words() -> None:
    with Cluster(1, **{"klamm.delete.topic.policy": f"{__name__}:guard"}) as cluster:
        wire = Wire(cluster)
        assert codes(wire.create(topic("ledger-1"), topic("other"))) == [E.NONE, E.NONE]
        refused, fine = wire.delete("ledger-1", "other")
        check(refused, E.POLICY_VIOLATION, "ledger-1 is needed")
        check(fine, E.NONE, None)


def test_a_quota_of_changes_is_strict_from_version_5_on() -> None:
    with Cluster(1) as cluster:
        wire = Wire(cluster)
        assert codes(wire.create(topic("a", 12), topic("b", 1))) == [E.NONE, E.NONE]
        wire.limit_changes("busy")
        results = wire.delete("a", "b", name="busy")
        assert codes(results) == [E.NONE, E.THROTTLING_QUOTA_EXCEEDED]
        assert codes(wire.delete("b", name="busy", version=4)) == [E.NONE]


def test_a_deletion_that_is_under_way_is_not_found_any_more() -> None:
    with Cluster(2) as cluster:
        wire = Wire(cluster)
        assert codes(wire.create(topic("t", 1, 2))) == [E.NONE]
        cluster.kill_broker(wire.other)
        cluster.wait_until(lambda view: all(len(b.live) == 1 for b in view.brokers.values()))
        topic_id = cluster._app.brokers[cluster.running[0]].parts.metadata.snapshot.topic_ids["t"]
        assert codes(wire.delete("t")) == [E.NONE]
        assert layout.delete_topic_path("t") in cluster.store_paths()
        assert codes(wire.delete("t")) == [E.UNKNOWN_TOPIC_OR_PARTITION]
        # The controller still knows whose id it was.
        assert codes(wire.delete(DeleteTopicState(None, topic_id))) == [
            E.UNKNOWN_TOPIC_OR_PARTITION
        ]


@pytest.mark.parametrize("enabled", ["true", "false"])
def test_markers_by_hand_are_taken_away_where_they_mean_nothing(enabled: str) -> None:
    """A marker of an unknown topic always, one of a known topic where deletion is switched off."""
    marked = "unknown" if enabled == "true" else "t"

    async def mark(session: Session) -> None:
        path = layout.delete_topic_path(marked)
        await session.multi([Create(path)])
        await until_absent(session, path)

    with Cluster(1, **{"delete.topic.enable": enabled}) as cluster:
        wire = Wire(cluster)
        assert codes(wire.create(topic("t"))) == [E.NONE]
        wire.in_store(mark)
        assert cluster.partition("t") is not None
