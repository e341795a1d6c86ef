"""The attacks by name.

Each takes a running target and the size of the attack, attacks while the healthy user works, and
returns what was seen and which promises were broken. It never judges times or memory: those who
call it do, for a busy machine deserves other limits than a quiet one.
"""

from __future__ import annotations

import random
import struct
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from hostile import bombs
from hostile.raw import Address, Closed, Raw, ask, create, describe, leader_of, said
from hostile.target import PARTITIONS, TOPIC, Seen, Target, command
from klamm.model.errors import ErrorCode, KlammError
from klamm.protocol import codec
from klamm.protocol.apis import ApiKey
from klamm.protocol.frames import FRAME_SIZE_MAX, encode_request_frame, parse_response_header
from klamm.protocol.messages import (
    allocate_producer_ids,
    alter_partition,
    consumer_group_heartbeat,
    controlled_shutdown,
    create_topics,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    join_group,
    leader_and_isr,
    list_offsets,
    metadata,
    offset_commit,
    produce,
    stop_replica,
    update_metadata,
    write_txn_markers,
)
from klamm.protocol.private import PrivateKey
from klamm.protocol.varint import uvarint, varint

HUGE: Final = 2**31 - 1
# What a request that is not believed may end in: an error code, or the end of the connection.
_REFUSALS: Final = (Closed, OSError, KlammError)
_CONTROLLER_EPOCH_FIRST: Final = 1


@dataclass
class Outcome:
    """What came of an attack."""

    seen: Seen
    facts: dict[str, Any] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def must(self, holds: bool, promise: str) -> None:
        if not holds:
            self.broken.append(promise)


Attack = Callable[..., Outcome]


@contextmanager
def _attacked(target: Target, *, settle_s: float = 30.0) -> Iterator[Outcome]:
    """Watch the others; whoever broke a promise leaves a target that nobody should use again."""
    with target.watched(settle_s=settle_s) as seen:
        outcome = Outcome(seen)
        yield outcome
    if outcome.broken:
        target.is_dirty = True


def _clock() -> Callable[[], float]:
    began = time.monotonic()
    return lambda: round(time.monotonic() - began, 3)


def _produced(
    target: Target, topic: str, batch: bytes, *, partition: int = 0, client_id: str = "hostile"
) -> int:
    """The code that answers a batch, None's stand-in -999 for a connection that was closed."""
    at = leader_of(target.address(), topic, partition)
    data = produce.TopicProduceData(topic, [produce.PartitionProduceData(partition, batch)])
    request = produce.Request(acks=1, timeout_ms=30_000, topic_data=[data])
    try:
        answer = ask(at, ApiKey.PRODUCE, 9, request, client_id=client_id)
    except _REFUSALS:
        return -999
    return int(answer.responses[0].partition_responses[0].error_code)


def _topic(target: Target, name: str, **kw: Any) -> str:
    """A topic of the attacker's own, made once."""
    code = create(target.address(), name, **kw)
    assert code in (0, 36), f"the attacker cannot make {name}: error {code}"
    leader_of(target.address(), name)
    return name


def _all_at_once(work: list[Callable[[], object]]) -> None:
    threads = [threading.Thread(target=_quietly, args=(piece,), daemon=True) for piece in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(400)


def _quietly(piece: Callable[[], object]) -> None:
    with suppress(*_REFUSALS):
        piece()


# Names that become paths


def path_traversal(target: Target) -> Outcome:
    """Control requests for partitions whose directories would lie elsewhere."""
    names = [
        str(target.directory / "precious"),
        "../../precious",
        "../../planted",
        str(target.directory / "planted"),
        "x/../../../planted",
        "..",
        "",
        "nul\0byte",
        "line\nbreak",
    ]
    with _attacked(target) as outcome:
        for broker, address in enumerate(target.addresses):
            for name in names:
                for partition in (7, -1):
                    codes = _take_over(address, broker, name, partition)
                    outcome.facts[f"{name[-20:]!r} {partition}"] = codes
        outcome.must(target.precious_is_whole(), "a directory outside of the data was removed")
        outcome.must(not target.foreign_files(), f"files were made: {target.foreign_files()}")
    return outcome


def _take_over(address: Address, broker: int, name: str, partition: int) -> list[object]:
    """Make a broker lead a partition of any name, write to it, have its files removed."""
    stop = stop_replica.Request(
        controller_epoch=_CONTROLLER_EPOCH_FIRST,
        delete_partitions=True,
        ungrouped_partitions=[stop_replica.StopReplicaPartitionV0(name, partition)],
    )
    data = produce.TopicProduceData(
        name, [produce.PartitionProduceData(partition, bombs.batch(b"\x0c\0\0\0\1\1\0", 1))]
    )
    write = produce.Request(acks=1, timeout_ms=2000, topic_data=[data])
    lead = _lead(broker, name, partition)
    return [
        _code(address, ApiKey.LEADER_AND_ISR, 1, lead),
        _code(address, ApiKey.PRODUCE, 9, write),
        _code(address, ApiKey.STOP_REPLICA, 0, stop),
    ]


def _lead(
    broker: int,
    name: str,
    partition: int,
    *,
    leader_epoch: int = 0,
    controller_epoch: int = _CONTROLLER_EPOCH_FIRST,
    recovery: int = 0,
) -> leader_and_isr.Request:
    state = leader_and_isr.LeaderAndIsrPartitionState(
        topic_name=name,
        partition_index=partition,
        controller_epoch=controller_epoch,
        leader=broker,
        leader_epoch=leader_epoch,
        isr=[broker],
        partition_epoch=0,
        replicas=[broker],
        is_new=True,
        leader_recovery_state=recovery,
    )
    return leader_and_isr.Request(
        controller_epoch=controller_epoch, ungrouped_partition_states=[state]
    )


def _code(address: Address, key: int, version: int, request: Any, **kw: Any) -> int | str:
    """The first error code in an answer, 'closed' where the connection ended."""
    try:
        answer = ask(address, key, version, request, **kw)
    except _REFUSALS:
        return "closed"
    return _first_code(answer)


def _first_code(answer: Any) -> int:
    """An error code anywhere in an answer; 0 when there is none."""
    if isinstance(answer, list):
        return next(filter(None, map(_first_code, answer)), 0)
    if not hasattr(answer, "__dataclass_fields__"):
        return 0
    if code := getattr(answer, "error_code", 0):
        return int(code)
    values = (getattr(answer, name) for name in answer.__dataclass_fields__)
    return next(filter(None, map(_first_code, values)), 0)


def long_topic_name(target: Target, *, length: int = 400) -> Outcome:
    """A name that no file system takes must not count as a broken disk."""
    name = "n" * length
    with _attacked(target) as outcome:
        outcome.facts["create"] = create(target.address(), name)
        for broker, address in enumerate(target.addresses):
            lead = _lead(broker, name, 0)
            outcome.facts[f"lead {broker}"] = _code(address, ApiKey.LEADER_AND_ISR, 1, lead)
        outcome.must(outcome.facts["create"] != 0, "a name of 400 characters was taken")
    outcome.must(_living(target) == target.brokers, "a broker went away")
    return outcome


def _living(target: Target) -> int:
    for address in target.addresses:
        with suppress(*_REFUSALS):
            return len(describe(address).brokers)
    return 0


# One request stops everybody


def zstd_bomb_list_offsets(
    target: Target, *, records: int = 10_000_000, honest: int = 1_000_000
) -> Outcome:
    """A small batch of very many records, then a look-up by time inside it."""
    return _bombed(target, "bomb", bombs.empty_records(records), honest, lookups=1)


def small_bomb_many_list_offsets(
    target: Target, *, records: int = 3_000_000, honest: int = 300_000, lookups: int = 7
) -> Outcome:
    """A smaller batch and several look-ups at once."""
    return _bombed(target, "small-bomb", bombs.empty_records(records), honest, lookups=lookups)


def _bombed(target: Target, topic: str, bomb: bytes, honest: int, *, lookups: int) -> Outcome:
    valid = bombs.counted_records(honest)
    _topic(target, topic, partitions=2)
    with _attacked(target, settle_s=200) as outcome:
        clock = _clock()
        outcome.facts["bytes"] = len(bomb)
        outcome.facts["code"] = _produced(target, topic, bomb)
        _all_at_once([lambda: _look_up(target, topic, 0)] * lookups)
        outcome.facts["seconds"] = clock()
        clock = _clock()
        outcome.facts["honest bytes"] = len(valid)
        outcome.facts["honest code"] = _produced(target, topic, valid, partition=1)
        _all_at_once([lambda: _look_up(target, topic, 1)] * lookups)
        outcome.facts["honest seconds"] = clock()
        outcome.must(outcome.facts["code"] != 0, "records that all have one offset were taken")
    return outcome


def _look_up(target: Target, topic: str, partition: int) -> None:
    wanted = list_offsets.ListOffsetsPartition(partition, timestamp=bombs.BASE_TIME + 500)
    request = list_offsets.Request(-1, 0, [list_offsets.ListOffsetsTopic(topic, [wanted])])
    address = leader_of(target.address(), topic, partition)
    with Raw(address, patience_s=300) as raw:
        raw.ask(ApiKey.LIST_OFFSETS, 4, request)


def metadata_empty_names(target: Target, *, size_mb: float = 90) -> Outcome:
    """Metadata about millions of topics without a name."""
    count = int(size_mb * 1e6 / 2)
    return _large(target, ApiKey.METADATA, 1, struct.pack(">i", count) + bytes(2 * count))


def list_offsets_large(target: Target, *, size_mb: float = 10) -> Outcome:
    """ListOffsets about very many partitions of a topic that has one."""
    _topic(target, "asked")
    count = int(size_mb * 1e6 / 12)
    head = struct.pack(">iih5si", -1, 1, 5, b"asked", count)
    body = head + b"".join(struct.pack(">iq", n, -1) for n in range(count))
    address = leader_of(target.address(), "asked")
    return _large(target, ApiKey.LIST_OFFSETS, 1, body, address=address)


def produce_large(target: Target, *, size_mb: float = 8) -> Outcome:
    """Produce to very many partitions that are not there, without records."""
    count = int(size_mb * 1e6 / 8)
    body = struct.pack(">hhiih1si", -1, 1, 1000, 1, 1, b"t", count)
    body += b"".join(struct.pack(">ii", n, -1) for n in range(count))
    return _large(target, ApiKey.PRODUCE, 7, body)


def fetch_large(target: Target, *, size_mb: float = 14) -> Outcome:
    """Fetch from very many partitions that are not there."""
    count = int(size_mb * 1e6 / 28)
    body = struct.pack(">iiiibiiih1si", -1, 100, 1, 1 << 30, 0, 0, -1, 1, 1, b"t", count)
    body += b"".join(struct.pack(">iiqqi", n, -1, 0, -1, 1 << 20) for n in range(count))
    return _large(target, ApiKey.FETCH, 11, body + struct.pack(">ih", 0, 0))


def tags_large(target: Target, *, size_mb: float = 14) -> Outcome:
    """A small request with millions of tagged fields that nobody knows."""
    count = int(size_mb * 1e6 / 2)
    return _large(target, ApiKey.METADATA, 9, b"\0\0\0\0" + uvarint(count) + b"\x63\0" * count)


def tiny_requests(target: Target, *, requests: int = 500_000) -> Outcome:
    """Very many of the smallest requests in one go, and nobody who reads the answers at first."""
    frame = encode_request_frame(ApiKey.API_VERSIONS, 0, 1, "x", b"")
    with _attacked(target) as outcome, Raw(target.address(), patience_s=20) as raw:
        sender = threading.Thread(target=_quietly, args=(lambda: raw.send(frame * requests),))
        sender.start()
        clock, answers = _clock(), 0
        with suppress(TimeoutError, *_REFUSALS):
            while answers < requests and clock() < 60:
                raw.receive()
                answers += 1
        raw.close()
        sender.join()
        outcome.facts["answers"] = answers
        outcome.facts["seconds"] = clock()
    return outcome


def create_topics_large(target: Target, *, size_mb: float = 10) -> Outcome:
    """CreateTopics with very many topics without a name."""
    count = int(size_mb * 1e6 / 16)
    body = struct.pack(">i", count) + struct.pack(">hihii", 0, 1, 1, 0, 0) * count
    body += struct.pack(">ib", 5000, 0)
    return _large(target, ApiKey.CREATE_TOPICS, 2, body, address=target.controller())


def describe_configs_large(target: Target, *, size_mb: float = 10) -> Outcome:
    """DescribeConfigs about very many resources without a name."""
    count = int(size_mb * 1e6 / 7)
    body = struct.pack(">i", count) + struct.pack(">bhi", 2, 0, 0) * count + b"\0"
    return _large(target, ApiKey.DESCRIBE_CONFIGS, 1, body)


def private_json_large(target: Target, *, size_mb: float = 75) -> Outcome:
    """A private request with a body of many small lists."""
    body = b'{"topic":null,"x":[' + b"[]," * int(size_mb * 1e6 / 3) + b"0]}"
    return _large(target, PrivateKey.STORY, 0, body)


def _large(
    target: Target, key: int, version: int, body: bytes, *, address: Address | None = None
) -> Outcome:
    frame = encode_request_frame(key, version, 1, "hostile", body)
    with _attacked(target, settle_s=300) as outcome:
        clock = _clock()
        answer = said(address or target.address(), frame, patience_s=400)
        outcome.facts["sent"] = len(frame)
        outcome.facts["answered"] = None if answer is None else len(answer)
        outcome.facts["seconds"] = clock()
    return outcome


def private_json_deep(target: Target, *, depth: int = 100_000) -> Outcome:
    """Lists within lists, and other bodies that a handler may trip over."""
    bodies = [
        b"[" * depth,
        b'{"a":' * depth,
        b'{"topic":' + b"[" * depth + b"]" * depth + b"}",
        b'{"limit":1e999}',
        b'{"limit":NaN}',
        b'{"limit":' + b"9" * 5000 + b"}",
        b'{"topic":{},"topics":{"a":1},"broker":[],"after":7,"kind":[]}',
        b'{"topics":7,"timeout_ms":"x","kind":"create","limit":"x"}',
        b'{"kind":"move","partitions":[{"topic":"healthy","partition":1e30,"replicas":[[]]}]}',
        b'{"kind":"grow","topic":"healthy","partitions":2147483648}',
        b'{"kind":"create","topics":[{"name":"a","partitions":1e99}]}',
        b'{"kind":"elect","partitions":[[]]}',
        b'{"kind":"delete","topics":[null]}',
    ]
    with _attacked(target) as outcome:
        for key in PrivateKey:
            for body in bodies:
                said(target.controller(), encode_request_frame(key, 0, 1, "hostile", body))
    return outcome


def story_flood(
    target: Target, *, partitions: int = 3000, connections: int = 40, each: int = 3
) -> Outcome:
    """The longest story there is, asked on many connections at once."""
    _topic(target, "storied", partitions=partitions)
    frame = encode_request_frame(PrivateKey.STORY, 0, 1, "hostile", b'{"limit":1000000}')

    def ask_often(address: Address) -> None:
        with Raw(address, patience_s=120) as raw:
            raw.send(frame * each)
            sizes.extend(len(raw.receive()) for _ in range(each))

    sizes: list[int] = []
    with _attacked(target, settle_s=120) as outcome:
        clock, controller = _clock(), target.controller()
        _all_at_once([lambda: ask_often(controller)] * connections)
        outcome.facts["seconds"] = clock()
        outcome.facts["answers"] = len(sizes)
        outcome.facts["largest"] = max(sizes, default=0)
    return outcome


def compacted_produce(target: Target, *, records: int = 2_000_000) -> Outcome:
    """A compressed batch to a compacted topic, whose keys have to be looked at."""
    _topic(target, "compacted", configs={"cleanup.policy": "compact"})
    batch = bombs.distinct_keys(records)
    with _attacked(target) as outcome:
        clock = _clock()
        outcome.facts["bytes"] = len(batch)
        outcome.facts["code"] = _produced(target, "compacted", batch)
        outcome.facts["seconds"] = clock()
    return outcome


def cleaner_bomb(
    target: Target, *, records: int = 10_000_000, honest: int = 1_000_000, seconds: float = 4
) -> Outcome:
    """Batches that are many times larger once the cleaner has opened them.

    They are written while the topic is none that is cleaned, so that nobody looks at their keys.
    The target's cleaner must look often (log.cleaner.backoff.ms), or the attack is over before it.
    """
    _topic(target, "cleaned", partitions=2, configs={"segment.bytes": "1048576"})
    filler = bombs.keyed_record(random.Random(1).randbytes(600_000))
    with _attacked(target, settle_s=200) as outcome:
        bomb, valid = bombs.same_key(records), bombs.counted_records(honest, keyed=True)
        outcome.facts["bytes"] = len(bomb)
        outcome.facts["code"] = _produced(target, "cleaned", bomb)
        outcome.facts["honest bytes"] = len(valid)
        outcome.facts["honest code"] = _produced(target, "cleaned", valid, partition=1)
        policy = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"}
        outcome.facts["alter"] = _set(target, 2, "cleaned", policy)
        # The cleaner leaves the segment that is written to alone: these begin another.
        for partition in (0, 1, 0, 1):
            _produced(target, "cleaned", filler, partition=partition)
        time.sleep(seconds)
        outcome.must(outcome.facts["code"] != 0, "records that all have one offset were taken")
    return outcome


def _set(target: Target, kind: int, name: str, configs: dict[str, str]) -> int | str:
    """Change settings of a topic (2) or of brokers (4)."""
    changes = [incremental_alter_configs.AlterableConfig(k, 0, v) for k, v in configs.items()]
    resource = incremental_alter_configs.AlterConfigsResource(kind, name, changes)
    request = incremental_alter_configs.Request([resource])
    return _code(target.controller(), ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, request)


def subscription_pattern(
    target: Target, *, pattern: str = "((a|b|c)*){100}x?", topics: int = 50
) -> Outcome:
    """A regular expression that takes its time, on topics made for it."""
    names = [f"{n:03d}" + "abc" * 80 + "y" for n in range(topics)]
    wanted = [create_topics.CreatableTopic(name, 1, 1) for name in names]
    _code(target.controller(), ApiKey.CREATE_TOPICS, 5, create_topics.Request(wanted))
    for address in target.addresses:
        for name in names:
            leader_of(address, name)
    coordinator = target.address(_coordinator(target, "pattern"))
    with _attacked(target, settle_s=120) as outcome:
        clock = _clock()
        asked = _subscribe("pattern", "..." + pattern)
        outcome.facts["code"] = _code(coordinator, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, asked)
        outcome.facts["seconds"] = clock()
    return outcome


def hoarding_members(target: Target, *, groups: int = 60, size_mb: int = 8) -> Outcome:
    """Members that say a lot, of groups that live for half an hour."""
    said = b"x" * (size_mb << 20)
    node = _coordinator(target, "hoard")
    coordinator = target.address(node)
    names = [f"hoard-{n}" for n in range(groups * len(target.addresses) * 2)]
    asked = find_coordinator.Request(key_type=0, coordinator_keys=names)
    found = ask(target.address(), ApiKey.FIND_COORDINATOR, 4, asked).coordinators
    mine = [each.key for each in found if each.node_id == node][:groups]
    codes: list[int | str] = []
    with _attacked(target, settle_s=120) as outcome:
        for group in mine:
            request = join_group.Request(
                group_id=group,
                session_timeout_ms=1_800_000,
                member_id="",
                protocol_type="consumer",
                protocols=[join_group.JoinGroupRequestProtocol("range", said)],
            )
            codes.append(_code(coordinator, ApiKey.JOIN_GROUP, 0, request))
        later = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        outcome.facts["refused"] = codes.count(later)
        outcome.must(codes.count(0) > 0, "a group that fits is served")
        outcome.must(codes.count(later) > 0, "what strangers leave is bounded")
    return outcome


def _subscribe(group: str, pattern: str) -> consumer_group_heartbeat.Request:
    return consumer_group_heartbeat.Request(
        group_id=group,
        member_id=str(uuid.uuid4()),
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[],
        subscribed_topic_regex=pattern,
        topic_partitions=[],
    )


def _coordinator(target: Target, group: str) -> int:
    """Which broker coordinates a group, once somebody does."""
    request = find_coordinator.Request(key_type=0, coordinator_keys=[group])
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with suppress(*_REFUSALS):
            answer = ask(target.address(), ApiKey.FIND_COORDINATOR, 4, request)
            if answer.coordinators[0].error_code == 0:
                return int(answer.coordinators[0].node_id)
        time.sleep(0.1)
    raise AssertionError(f"{group} has no coordinator")


# The internal door


def forged_stop_replica(target: Target) -> Outcome:
    """Have a broker remove the healthy user's partitions."""
    before = target.leaders()
    stop = stop_replica.Request(
        controller_epoch=_CONTROLLER_EPOCH_FIRST,
        delete_partitions=True,
        ungrouped_partitions=[
            stop_replica.StopReplicaPartitionV0(TOPIC, n) for n in range(PARTITIONS)
        ],
    )
    with _attacked(target, settle_s=20) as outcome:
        _everywhere(target, outcome, ApiKey.STOP_REPLICA, 0, stop)
    outcome.must(target.leaders() == before, "leaders changed")
    outcome.must(_all_readable(target), "acknowledged records are gone")
    return outcome


def _everywhere(target: Target, outcome: Outcome, key: int, version: int, request: Any) -> None:
    """Say this to all brokers: none may say that it was done."""
    for broker, address in enumerate(target.addresses):
        code = _code(address, key, version, request)
        outcome.facts[f"broker {broker}"] = code
        outcome.must(code != 0, f"broker {broker} did what a stranger said")


def _all_readable(target: Target) -> bool:
    try:
        return not target.lost_records()
    except Exception:  # noqa: BLE001 - whatever keeps a reader from reading
        return False


def forged_update_metadata(target: Target) -> Outcome:
    """Tell the brokers that there are others, from a controller that never was."""
    before = sorted(b.port for b in describe(target.address()).brokers)
    fake = update_metadata.UpdateMetadataBroker(
        id=66,
        endpoints=[update_metadata.UpdateMetadataEndpoint(1, "127.0.0.1", "PLAINTEXT", 0)],
    )
    request = update_metadata.Request(66, controller_epoch=HUGE, live_brokers=[fake])
    with _attacked(target, settle_s=10) as outcome:
        _everywhere(target, outcome, ApiKey.UPDATE_METADATA, 4, request)
        now = sorted(b.port for b in describe(target.address()).brokers)
        outcome.must(now == before, "clients are told of a broker that is none")
    _must_still_be_led(target, outcome)
    return outcome


def _must_still_be_led(target: Target, outcome: Outcome) -> None:
    """A controller that was fenced cannot lead a new topic to its leaders."""
    name = f"after-{uuid.uuid4().hex[:8]}"
    try:
        code = create(target.address(), name)
        leader_of(target.address(), name)
    except (AssertionError, *_REFUSALS):
        code = -1
    outcome.must(code == 0, "the controller was fenced: a new topic gets no leader")
    target.is_dirty = target.is_dirty or bool(outcome.broken)


def forged_roll_call(target: Target) -> Outcome:
    """Call the roll in the name of a controller of the far future."""
    ask_ = {"controller": 0, "controller_epoch": HUGE, "broker_epoch": -1}
    with _attacked(target, settle_s=10) as outcome:
        for broker, address in enumerate(target.addresses):
            try:
                with Raw(address) as raw:
                    code = raw.ask_private(PrivateKey.ROLL_CALL, ask_)["error_code"]
            except _REFUSALS:
                code = "closed"
            outcome.facts[f"broker {broker}"] = code
            outcome.must(code != 0, f"broker {broker} answered a stranger's roll call")
    _must_still_be_led(target, outcome)
    return outcome


def forged_leader_and_isr(target: Target) -> Outcome:
    """Make every broker the leader of the healthy user's partitions, for ever."""
    with _attacked(target, settle_s=10) as outcome:
        for broker, address in enumerate(target.addresses):
            for partition in range(PARTITIONS):
                lead = _lead(broker, TOPIC, partition, leader_epoch=HUGE)
                code = _code(address, ApiKey.LEADER_AND_ISR, 1, lead)
                outcome.must(code != 0, f"broker {broker} leads {partition}, as a stranger said")
    outcome.must(_all_readable(target), "acknowledged records are gone")
    _must_still_be_led(target, outcome)
    return outcome


def unknown_recovery_state(target: Target) -> Outcome:
    """Leader recovery states that no version knows."""
    data = alter_partition.PartitionData(0, 0, [], [0], leader_recovery_state=77)
    asked = alter_partition.Request(
        0, 0, [alter_partition.TopicData("", _topic_id(target), [data])]
    )
    state = _lead(0, TOPIC, 0).ungrouped_partition_states[0]
    state.leader_recovery_state = 77
    topic = leader_and_isr.LeaderAndIsrTopicState(TOPIC, uuid.uuid4(), [state])
    ordered = leader_and_isr.Request(
        controller_epoch=_CONTROLLER_EPOCH_FIRST, type=9, topic_states=[topic]
    )
    with _attacked(target, settle_s=10) as outcome:
        for version in (2, 3):
            _everywhere(target, outcome, ApiKey.ALTER_PARTITION, version, asked)
        for version in (6, 7):
            _everywhere(target, outcome, ApiKey.LEADER_AND_ISR, version, ordered)
    return outcome


def _topic_id(target: Target) -> uuid.UUID:
    request = metadata.Request([metadata.MetadataRequestTopic(name=TOPIC)], False)
    found = ask(target.address(), ApiKey.METADATA, 12, request).topics[0].topic_id
    assert isinstance(found, uuid.UUID)
    return found


def forged_txn_markers(target: Target) -> Outcome:
    """Write markers of a transaction that never was into the healthy user's partitions."""
    topic = write_txn_markers.WritableTxnMarkerTopic(TOPIC, list(range(PARTITIONS)))
    marker = write_txn_markers.WritableTxnMarker(4711, 0, True, [topic], HUGE)
    request = write_txn_markers.Request([marker])
    with _attacked(target, settle_s=10) as outcome:
        for broker, address in enumerate(target.addresses):
            try:
                answer = ask(address, ApiKey.WRITE_TXN_MARKERS, 1, request)
                codes = [
                    p.error_code for m in answer.markers for t in m.topics for p in t.partitions
                ]
            except _REFUSALS:
                codes = []
            outcome.facts[f"broker {broker}"] = codes
            outcome.must(0 not in codes, f"broker {broker} wrote a stranger's marker")
    return outcome


def forged_controlled_shutdown(target: Target) -> Outcome:
    """Tell the controller that a broker wants to stop, without its epoch."""
    before = target.leaders()
    with _attacked(target, settle_s=10) as outcome:
        for version in (0, 1, 2, 3):
            request = controlled_shutdown.Request(broker_id=1)
            code = _code(target.controller(), ApiKey.CONTROLLED_SHUTDOWN, version, request)
            outcome.facts[f"version {version}"] = code
            outcome.must(code != 0, f"version {version} relieves a broker that did not ask")
    outcome.must(target.leaders() == before, "leaders changed")
    return outcome


def forged_alter_partition(target: Target, *, guesses: int = 300) -> Outcome:
    """Throw followers out of the in-sync sets in their leaders' names; epochs are guessed."""
    told = describe(target.address(), TOPIC).topics[0].partitions
    before = [sorted(p.isr_nodes) for p in told]
    topic_id, controller = _topic_id(target), target.controller()
    with _attacked(target, settle_s=10) as outcome:
        for part in told:
            data = alter_partition.PartitionData(
                part.partition_index,
                max(part.leader_epoch, 0),
                [alter_partition.BrokerState(part.leader_id)],
                [part.leader_id],
            )
            topics = [alter_partition.TopicData("", topic_id, [data])]
            requests = [alter_partition.Request(part.leader_id, n, topics) for n in range(guesses)]
            codes = _guess(controller, ApiKey.ALTER_PARTITION, 2, requests)
            outcome.facts[f"partition {part.partition_index}"] = codes
            outcome.must(0 not in codes, "a stranger changed an in-sync set")
    now = [sorted(p.isr_nodes) for p in describe(target.address(), TOPIC).topics[0].partitions]
    outcome.facts["in sync"] = now
    outcome.must(now == before, "the in-sync sets changed")
    return outcome


def _guess(address: Address, key: int, version: int, requests: list[Any]) -> list[int | str]:
    """The distinct codes that answer these requests, sent one behind the other."""
    bodies = [codec.encode_request(key, version, request) for request in requests]
    codes: set[int | str] = set()
    with Raw(address) as raw:
        try:
            raw.send(b"".join(encode_request_frame(key, version, 1, "x", b) for b in bodies))
            for _ in requests:
                answer = raw.receive()
                _, at = parse_response_header(key, version, answer)
                codes.add(_first_code(codec.decode_response(key, version, answer[at:])))
        except _REFUSALS:
            codes.add("closed")
    return sorted(codes, key=str)


def forged_producer_ids(target: Target, *, guesses: int = 300) -> Outcome:
    """Use up producer ids in a broker's name; its epoch is guessed."""
    with _attacked(target, settle_s=10) as outcome:
        requests = [
            allocate_producer_ids.Request(broker, n)
            for broker in range(target.brokers)
            for n in range(guesses)
        ]
        codes = _guess(target.controller(), ApiKey.ALLOCATE_PRODUCER_IDS, 0, requests)
        outcome.facts["codes"] = codes
        outcome.must(0 not in codes, "a stranger got producer ids")
    return outcome


def forged_follower_fetch(target: Target) -> Outcome:
    """Fetch as if one were a follower that has everything already."""
    ends = {s.partition: s.offset + 1 for s in target.samples}
    with _attacked(target, settle_s=10) as outcome:
        for partition, leader in target.leaders().items():
            wanted = fetch.FetchPartition(
                partition, fetch_offset=ends[partition], partition_max_bytes=1 << 20
            )
            request = fetch.Request(
                replica_id=(leader + 1) % target.brokers,
                max_wait_ms=1,
                topics=[fetch.FetchTopic(topic=TOPIC, partitions=[wanted])],
            )
            code = _code(target.address(leader), ApiKey.FETCH, 11, request)
            outcome.facts[f"partition {partition}"] = code
            outcome.must(code != 0, "a stranger was taken for a follower")
    return outcome


def forged_admin_client(target: Target) -> Outcome:
    """Write into an internal topic by calling oneself as the command line does."""
    _coordinator(target, "any")  # so that the topic is there
    batch = bombs.batch(b"\x0e\0\0\0\x02k\1\0", 1)
    with _attacked(target, settle_s=10) as outcome:
        code = _produced(target, "__consumer_offsets", batch, client_id="__admin_client")
        outcome.facts["code"] = code
        outcome.must(code != 0, "a stranger wrote into __consumer_offsets")
    return outcome


# Full tables


def max_connections_zero(target: Target) -> Outcome:
    """Set limits with which nobody can connect any more, and start the cluster again."""
    with _attacked(target, settle_s=10) as outcome:
        for name in ("max.connections.per.ip", "max.connections"):
            with suppress(AssertionError, *_REFUSALS):
                outcome.facts[name] = _set(target, 4, "", {name: "0"})
        outcome.must(_serves(target, 5), "nobody can connect any more")
    try:
        target.restart(patience_s=20)
        outcome.must(_serves(target, 10), "nobody can connect after a restart")
    except AssertionError as fault:
        outcome.broken.append(f"no restart: {fault}"[:200])
    if not outcome.broken:
        target.start_user()
    return outcome


def _serves(target: Target, patience_s: float) -> bool:
    """Whether a new connection is answered."""
    deadline = time.monotonic() + patience_s
    frame = struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, 0, 3, -1)
    while time.monotonic() < deadline:
        with suppress(*_REFUSALS):
            if said(target.address(), frame, patience_s=2) is not None:
                return True
        time.sleep(0.05)
    return False


def connection_flood(target: Target, *, connections: int = 400, hold_s: float = 4) -> Outcome:
    """More connections than the cluster has descriptors for."""
    with _attacked(target, settle_s=20) as outcome:
        with ExitStack() as stack:
            opened = 0
            for n in range(connections):
                with suppress(OSError):
                    raw = Raw(target.addresses[n % target.brokers], patience_s=0.5)
                    stack.enter_context(raw)
                    opened += 1
            deadline = time.monotonic() + hold_s
            while time.monotonic() < deadline:
                time.sleep(0.1)
            outcome.facts["opened"] = opened
        outcome.must(_serves(target, 20), "the cluster serves nobody after the flood")
    outcome.facts["log lines"] = target.log.read_bytes().count(b"\n")
    outcome.must(outcome.facts["log lines"] < 500, "the log is flooded as well")
    outcome.must(_living(target) == target.brokers, "brokers went away")
    return outcome


def half_frames(target: Target, *, connections: int = 300, each_kb: int = 1000) -> Outcome:
    """Connections that announce the largest frame, send a part of it, and wait."""
    # Produce is the one API whose frames may be that large.
    piece = struct.pack(">ihhi", FRAME_SIZE_MAX, ApiKey.PRODUCE, 7, 1) + bytes(each_kb * 1000)
    with _attacked(target) as outcome, ExitStack() as stack:
        sent = 0
        for n in range(connections):
            with suppress(Closed, OSError):
                raw = stack.enter_context(Raw(target.addresses[n % target.brokers], patience_s=3))
                raw.send(piece)
                sent += len(piece)
        outcome.facts["sent"] = sent
        target._answers_again(time.monotonic(), 30)
    return outcome


def unread_answers(
    target: Target, *, connections: int = 100, size_mb: int = 20, seconds: float = 3
) -> Outcome:
    """Connections that ask for a lot and never read what they are told."""
    _topic(target, "unread", configs={"max.message.bytes": "2000000"})
    filler = bombs.keyed_record(random.Random(2).randbytes(1_000_000))
    for _ in range(size_mb):
        assert _produced(target, "unread", filler) == 0
    wanted = fetch.FetchPartition(0, fetch_offset=0, partition_max_bytes=HUGE)
    request = fetch.Request(
        max_wait_ms=1, min_bytes=1, topics=[fetch.FetchTopic(topic="unread", partitions=[wanted])]
    )
    fetching = encode_request_frame(
        ApiKey.FETCH, 11, 1, "hostile", codec.encode_request(ApiKey.FETCH, 11, request)
    )
    every = struct.pack(">i", -1)
    asking = encode_request_frame(ApiKey.METADATA, 1, 1, "hostile", every) * 200
    leader = leader_of(target.address(), "unread")
    with _attacked(target) as outcome, ExitStack() as stack:
        for n in range(connections):
            with suppress(Closed, OSError):
                raw = stack.enter_context(Raw(leader, patience_s=1))
                raw.send(fetching if n % 2 else asking)
        time.sleep(seconds)
    return outcome


def slow_loris(target: Target, *, connections: int = 100, seconds: float = 2) -> Outcome:
    """Connections that send a request byte by byte."""
    frame = encode_request_frame(ApiKey.METADATA, 1, 1, "hostile", struct.pack(">i", -1))
    with _attacked(target) as outcome, ExitStack() as stack:
        opened = [stack.enter_context(Raw(target.address())) for _ in range(connections)]
        deadline = time.monotonic() + seconds
        at = 0
        while time.monotonic() < deadline and at < len(frame) - 1:
            for raw in opened:
                with suppress(Closed):
                    raw.send(frame[at : at + 1])
            at += 1
            time.sleep(seconds / len(frame))
    return outcome


def many_partitions(target: Target, *, count: int = 20_000, patience_s: float = 300) -> Outcome:
    """One topic of very many partitions."""
    name = f"wide-{uuid.uuid4().hex[:6]}"
    with _attacked(target, settle_s=200) as outcome:
        clock = _clock()
        with suppress(*_REFUSALS):
            outcome.facts["code"] = create(target.address(), name, count)
        led = 0
        while led < count and clock() < patience_s:
            with suppress(*_REFUSALS, IndexError):
                parts = describe(target.address(), name).topics[0].partitions
                led = sum(p.leader_id >= 0 for p in parts)
            time.sleep(0.2)
        outcome.facts["led"] = led
        outcome.facts["seconds"] = clock()
    return outcome


def partitions_on_a_busy_disk(target: Target, *, count: int = 600) -> Outcome:
    """A wide topic where each directory takes its time (`mkdir_ms` of the target)."""
    return many_partitions(target, count=count)


# Contents that are lies


def poison_batches(target: Target) -> Outcome:
    """Batches that nobody could read once they are in the log."""
    topic = _topic(target, f"poison-{uuid.uuid4().hex[:6]}")
    with _attacked(target) as outcome:
        for name, batch in bombs.poisons().items():
            code = outcome.facts[name] = _produced(target, topic, batch)
            outcome.must(code != 0, f"acknowledged: {name}")
    return outcome


def terminal_escapes(target: Target) -> Outcome:
    """Names and values that would move the cursor of whoever looks at them."""
    evil = "evil\x1b[2J\x1b]0;owned\x07\x9b31m"
    coordinator = _coordinator(target, evil)
    part = offset_commit.OffsetCommitRequestPartition(0, 1, committed_metadata=evil)
    commit = offset_commit.Request(
        evil, topics=[offset_commit.OffsetCommitRequestTopic(name=TOPIC, partitions=[part])]
    )
    topic = _topic(target, "shown")
    with _attacked(target) as outcome:
        outcome.facts["commit"] = _code(
            target.address(coordinator), ApiKey.OFFSET_COMMIT, 7, commit
        )
        value = evil.encode()
        body = b"\0\0\0\1" + varint(len(value)) + value + b"\0"
        code = _produced(target, topic, bombs.batch(varint(len(body)) + body, 1))
        outcome.facts["produce"] = code
        for words in (
            ("groups", "list"),
            ("groups", "describe", evil),
            ("consume", "shown"),
        ):
            _show(target, outcome, words)
    return outcome


def _show(target: Target, outcome: Outcome, words: tuple[str, ...]) -> None:
    done = command(*words, "--bootstrap-server", target.bootstrap)
    text = done.stdout + done.stderr
    outcome.facts[" ".join(words[:2])] = (done.returncode, len(text))
    raw = any(c in text for c in "\x1b\x07\x9b")
    outcome.must(not raw, f"klamm {' '.join(words[:2])} writes a stranger's escapes")


# Files that are damaged


def store_unlinked(target: Target) -> Outcome:
    """Remove the store under the running cluster, then ask for a topic."""
    return _without_store(target, lambda: _stores(target, lambda path: path.unlink()))


def store_truncated(target: Target) -> Outcome:
    """Truncate the store under the running cluster, then ask for a topic."""

    def cut(path: Any) -> None:
        with path.open("r+b") as file:
            file.truncate(0)

    return _without_store(target, lambda: _stores(target, cut))


def _stores(target: Target, work: Callable[[Any], object]) -> None:
    for path in sorted(target.data.glob("store.db")):
        work(path)


def _without_store(target: Target, damage: Callable[[], object]) -> Outcome:
    with target.watched(settle_s=5) as seen:
        outcome = Outcome(seen)
        damage()
        codes = []
        for n in range(5):
            try:
                codes.append(create(target.address(), f"lost-{n}"))
            except (AssertionError, *_REFUSALS):
                codes.append(-1)
        outcome.facts["codes"] = codes
        outcome.must(0 not in codes, "a topic was created in a store that is gone")
    target.is_dirty = True
    return outcome


def truncated_at_rest(target: Target, *, later: int = 50) -> Outcome:
    """Cut the log of a leader while the cluster is stopped; then go on writing."""
    outcome = Outcome(Seen())
    leaders = target.leaders()
    target.stop()
    for partition, leader in leaders.items():
        for path in target.data.glob(f"broker-{leader}/**/{TOPIC}-{partition}/*.log"):
            size = path.stat().st_size
            with path.open("r+b") as file:
                file.truncate(size // 2)
            outcome.facts[f"{partition} on {leader}"] = (size, size // 2)
    before = len(target.samples)
    target._close_pipes()
    target._launch()
    target.warm_up()
    with target.watched(settle_s=30) as outcome.seen:
        target.start_user()
        with suppress(AssertionError):
            target.wait(lambda: len(target.samples) > before + later, "later records", 30)
    target.stop_user()
    outcome.facts["written"] = len(target.samples)
    outcome.must(len(target.samples) > before + later, "nobody can write after the restart")
    outcome.must(_all_readable(target), "acknowledged records are gone")
    target.is_dirty = True
    return outcome
