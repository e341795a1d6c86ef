"""Longer scenes: lives of static members, groups that disagree, offsets, and the ends of a log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from klamm.protocol.apis import ApiKey

if TYPE_CHECKING:
    from interop_extra.differential.dice import Asked, Dice

_RANGE: Final = {"name": "range", "metadata": "hex:000100000000ffffffff"}
_ORDERS: Final = {"name": "range", "metadata": "hex:00010000000100066f7264657273ffffffff"}
_WORK: Final = [{"member_id": "$member", "assignment": "hex:0001"}]
_WITH_INSTANCES: Final = 5  # of JoinGroup; of SyncGroup and Heartbeat 3, OffsetCommit 7


def _joining(group: str, **more: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 1_000,
        "protocol_type": "consumer",
        "protocols": [_RANGE],
        "member_id": "",
        **more,
    }


def _commit(group: str, topic: str = "orders", **more: Any) -> dict[str, Any]:
    offset = {"partition_index": 0, "committed_offset": 3, "committed_metadata": "m"}
    return {
        "group_id": group,
        "generation_id_or_member_epoch": "$generation",
        "member_id": "$member",
        "retention_time_ms": -1,
        "topics": [{"name": topic, "partitions": [{**offset, **more.pop("offset", {})}]}],
        **more,
    }


def static_member(dice: Dice) -> Sequence[Asked]:
    """A member that comes back under its instance, and what its former self may still do."""
    group, instance = dice.fresh("group"), {"group_instance_id": "i-1"}
    now = {"group_id": group, "generation_id": "$generation", "member_id": "$member", **instance}
    before = {**now, "member_id": "$before"}
    leaver = {"member_id": dice.random.choice(("", "$member", "$before")), **instance}
    stranger = {"member_id": "", "group_instance_id": "i-2"}
    life = [
        dice.ask(ApiKey.SYNC_GROUP, at_least=3, assignments=_WORK, **now),
        dice.ask(ApiKey.HEARTBEAT, at_least=3, **now),
        dice.ask(ApiKey.JOIN_GROUP, at_least=_WITH_INSTANCES, **_joining(group, **instance)),
        dice.ask(ApiKey.HEARTBEAT, at_least=3, **before),
        dice.ask(ApiKey.SYNC_GROUP, at_least=3, assignments=[], **before),
        dice.ask(ApiKey.SYNC_GROUP, at_least=3, assignments=[], **now),
        dice.ask(
            ApiKey.OFFSET_COMMIT,
            at_least=7,
            at_most=8,
            **_commit(group, member_id="$before", **instance),
        ),
        dice.ask(ApiKey.OFFSET_COMMIT, at_least=7, at_most=8, **_commit(group, **instance)),
        dice.ask(ApiKey.HEARTBEAT, at_least=3, **{**now, "group_instance_id": "i-2"}),
        dice.ask(ApiKey.DESCRIBE_GROUPS, groups=[group]),
        dice.ask(
            ApiKey.JOIN_GROUP,
            at_least=_WITH_INSTANCES,
            **_joining(group, **instance, member_id="$before"),
        ),
    ]
    first = dice.ask(ApiKey.JOIN_GROUP, at_least=_WITH_INSTANCES, **_joining(group, **instance))
    end = [
        dice.ask(ApiKey.LEAVE_GROUP, at_least=3, group_id=group, members=[leaver, stranger]),
        dice.ask(ApiKey.LEAVE_GROUP, at_least=3, group_id=group, members=[leaver]),
        dice.ask(ApiKey.LIST_GROUPS),
    ]
    return [first, *(each for each in life if dice.random.random() < 0.85), *end]


def disagreement(dice: Dice) -> Sequence[Asked]:
    """A group, and those who speak to it in other words than it agreed on."""
    group = dice.fresh("group")
    who = {"group_id": group, "generation_id": "$generation", "member_id": "$member"}
    begin = [
        dice.ask(ApiKey.JOIN_GROUP, at_most=3, **_joining(group, protocols=[_ORDERS])),
        dice.ask(ApiKey.SYNC_GROUP, assignments=_WORK, **who, **_agreed("consumer", "range")),
    ]
    life = [
        dice.ask(ApiKey.JOIN_GROUP, **_joining(group, protocol_type="connect")),
        dice.ask(ApiKey.JOIN_GROUP, **_joining(group, protocol_type="")),
        dice.ask(ApiKey.JOIN_GROUP, **_joining(group, protocols=[])),
        dice.ask(ApiKey.JOIN_GROUP, **_joining(group, protocols=[{**_RANGE, "name": "other"}])),
        dice.ask(ApiKey.JOIN_GROUP, **_joining(group, member_id="nobody")),
        dice.ask(ApiKey.SYNC_GROUP, at_least=5, **who, **_agreed("connect", "range")),
        dice.ask(ApiKey.SYNC_GROUP, at_least=5, **who, **_agreed("consumer", "other")),
        dice.ask(ApiKey.SYNC_GROUP, at_least=5, **who, **_agreed("consumer", "range")),
        dice.ask(ApiKey.OFFSET_COMMIT, at_most=8, **_commit(group)),
        dice.ask(
            ApiKey.OFFSET_COMMIT,
            at_most=8,
            **_commit(group, generation_id_or_member_epoch=-1, member_id=""),
        ),
        dice.ask(ApiKey.OFFSET_COMMIT, at_most=8, **_commit(group, member_id="nobody")),
        dice.ask(
            ApiKey.OFFSET_COMMIT, at_most=8, **_commit(group, generation_id_or_member_epoch=9)
        ),
        dice.ask(
            ApiKey.OFFSET_DELETE,
            group_id=group,
            topics=[
                {"name": "orders", "partitions": [{"partition_index": 0}]},
                {"name": "single", "partitions": [{"partition_index": 0}]},
            ],
        ),
        dice.ask(ApiKey.DELETE_GROUPS, groups_names=[group, group]),
        dice.ask(ApiKey.DESCRIBE_GROUPS, groups=[group], include_authorized_operations=True),
        dice.ask(ApiKey.LEAVE_GROUP, at_most=2, group_id=group, member_id="nobody"),
    ]
    dice.random.shuffle(life)
    end = [
        dice.ask(ApiKey.LEAVE_GROUP, at_most=2, group_id=group, member_id="$member"),
        dice.ask(ApiKey.HEARTBEAT, **who),
        dice.ask(ApiKey.OFFSET_COMMIT, at_most=8, **_commit(group)),
        dice.ask(ApiKey.DESCRIBE_GROUPS, groups=[group]),
        dice.ask(ApiKey.DELETE_GROUPS, groups_names=[group]),
    ]
    return [*begin, *life, *end]


def _agreed(kind: str, name: str) -> dict[str, Any]:
    return {"protocol_type": kind, "protocol_name": name}


def offsets(dice: Dice) -> Sequence[Asked]:
    """Offsets of nobody's group: kept, asked for in every way, and removed."""
    group = dice.fresh("group")
    alone = {"generation_id_or_member_epoch": -1, "member_id": ""}
    partitions = [0, 1, 7]
    question = {
        "group_id": group,
        "topics": [{"name": "orders", "partition_indexes": partitions}],
        "require_stable": dice.random.random() < 0.5,
    }
    several = {
        "groups": [
            {
                "group_id": each,
                "topics": [{"name": "orders", "partition_indexes": partitions}],
            }
            for each in (group, "nobody", "g-committed")
        ],
        "require_stable": False,
    }
    large = {"committed_metadata": "m" * dice.random.choice((4096, 4097))}
    life = [
        dice.ask(ApiKey.OFFSET_COMMIT, at_most=8, **_commit(group, **alone)),
        dice.ask(ApiKey.OFFSET_COMMIT, at_most=8, **_commit(group, offset=large, **alone)),
        dice.ask(ApiKey.OFFSET_COMMIT, at_most=8, **_commit(group, "nowhere", **alone)),
        dice.ask(
            ApiKey.OFFSET_COMMIT,
            at_most=8,
            **_commit(group, offset={"committed_metadata": None}, **alone),
        ),
        dice.ask(
            ApiKey.OFFSET_COMMIT,
            at_most=8,
            **_commit(group, offset={"committed_offset": -1}, **alone),
        ),
        dice.ask(ApiKey.OFFSET_COMMIT, at_most=8, **_commit("", **alone)),
        dice.ask(ApiKey.OFFSET_FETCH, at_most=7, **question),
        dice.ask(ApiKey.OFFSET_FETCH, at_least=2, at_most=7, **{**question, "topics": None}),
        dice.ask(ApiKey.OFFSET_FETCH, at_least=8, at_most=9, **several),
        dice.ask(
            ApiKey.OFFSET_DELETE,
            group_id=dice.random.choice((group, "nobody")),
            topics=[{"name": "orders", "partitions": [{"partition_index": 0}]}],
        ),
    ]
    return [life[0], *(each for each in life[1:] if dice.random.random() < 0.8)]


def ends_of_a_log(dice: Dice) -> Sequence[Asked]:
    """A topic whose first records are deleted, and what it tells of its beginning and end."""
    topic = dice.fresh("log")
    place = {"name": topic, "partition_data": [{"index": 0, "records": "$batch:-1"}]}
    produced = {"acks": -1, "timeout_ms": 5_000, "topic_data": [place]}
    upto = dice.random.choice((0, 1, 2, 3, 4, -1, -2))
    wanted = {"partition_index": 0, "offset": upto}
    life = [
        dice.ask(
            ApiKey.CREATE_TOPICS,
            topics=[
                {
                    "name": topic,
                    "num_partitions": 1,
                    "replication_factor": 1,
                    "configs": [{"name": "segment.bytes", "value": "14"}],
                }
            ],
            timeout_ms=5_000,
        ),
        *(dice.ask(ApiKey.PRODUCE, at_least=3, **produced) for _ in range(3)),
        dice.ask(
            ApiKey.DELETE_RECORDS,
            topics=[{"name": topic, "partitions": [wanted]}],
            timeout_ms=5_000,
        ),
    ]
    times = [-1, -2, -3, -4, -5, 0, 1_700_000_000_000, 1_700_000_000_001]
    for time in times:
        asked = {"partition_index": 0, "timestamp": time, "current_leader_epoch": -1}
        life.append(
            dice.ask(
                ApiKey.LIST_OFFSETS,
                at_least=1,
                replica_id=-1,
                isolation_level=dice.random.choice((0, 1)),
                topics=[{"name": topic, "partitions": [asked]}],
            )
        )
    for epoch in (0, 1, -1):
        asked = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}
        life.append(
            dice.ask(
                ApiKey.OFFSET_FOR_LEADER_EPOCH,
                replica_id=-1,
                topics=[{"topic": topic, "partitions": [asked]}],
            )
        )
    life += [_fetch(dice, topic, offset) for offset in (0, 1, 2, 3, 4)]
    life.append(
        dice.ask(
            ApiKey.DELETE_TOPICS,
            at_most=5,
            topic_names=[topic],
            timeout_ms=5_000,
        )
    )
    return life


def _fetch(dice: Dice, topic: str, offset: int) -> Asked:
    wanted = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1_000_000,
    }
    return dice.ask(
        ApiKey.FETCH,
        at_least=4,
        at_most=12,
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1_000_000,
        isolation_level=dice.random.choice((0, 1)),
        session_id=0,
        session_epoch=-1,
        topics=[{"topic": topic, "partitions": [wanted]}],
    )


def fenced_producer(dice: Dice) -> Sequence[Asked]:
    """A transactional id that is taken over, and what its former producer may still do."""
    name = dice.fresh("txn")
    who = {"transactional_id": name, "producer_id": "$producer", "producer_epoch": "$epoch"}
    stale = {**who, "producer_epoch": "$epoch-before"}
    opening = {"transactional_id": name, "transaction_timeout_ms": 60_000}
    strange = {"producer_id": 4_000_000, "producer_epoch": 0}
    where = [{"name": "orders", "partitions": [0]}, {"name": "nowhere", "partitions": [0]}]
    old = {f"v3_and_below_{field}": value for field, value in stale.items()}
    begin = [
        dice.ask(ApiKey.INIT_PRODUCER_ID, **opening, producer_id=-1, producer_epoch=-1),
        dice.ask(ApiKey.INIT_PRODUCER_ID, **opening, producer_id=-1, producer_epoch=-1),
    ]
    life = [
        dice.ask(ApiKey.END_TXN, committed=True, **stale),
        dice.ask(ApiKey.ADD_PARTITIONS_TO_TXN, at_most=3, v3_and_below_topics=where[:1], **old),
        dice.ask(ApiKey.ADD_OFFSETS_TO_TXN, group_id="t-3", **stale),
        dice.ask(ApiKey.INIT_PRODUCER_ID, at_least=3, **opening, **strange),
        dice.ask(
            ApiKey.INIT_PRODUCER_ID,
            at_least=3,
            **opening,
            producer_id="$producer",
            producer_epoch="$epoch",
        ),
        dice.ask(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            at_most=3,
            v3_and_below_topics=where,
            **{f"v3_and_below_{field}": value for field, value in who.items()},
        ),
        dice.ask(ApiKey.DESCRIBE_TRANSACTIONS, transactional_ids=[name]),
        dice.ask(ApiKey.END_TXN, committed=False, **who),
        dice.ask(ApiKey.END_TXN, committed=False, **{**who, "producer_id": 4_000_000}),
    ]
    kept = [each for each in life if dice.random.random() < 0.85]
    return [*begin, *kept, dice.ask(ApiKey.END_TXN, committed=False, **who)]


SCENES: Final[Sequence[Callable[[Dice], Sequence[Asked]]]] = (
    static_member,
    disagreement,
    offsets,
    ends_of_a_log,
    fenced_producer,
)
