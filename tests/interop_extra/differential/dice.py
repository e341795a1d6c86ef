"""Requests from a seed: valid ones, borderline ones, and such as no client should send.

A single request is made from the declarations of its API, with values drawn by the names of its
fields: names of topics that exist, do not exist, or cannot exist; offsets before, inside and after
a log. What only means something in a row, a member's or a producer's life, comes as a scene.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from interop_extra.differential.scenes import SCENES
from interop_extra.differential.trees import Tree, name_of
from klamm.model.names import ZERO_ID
from klamm.protocol import batch, codec
from klamm.protocol.apis import APIS, ApiKey
from klamm.protocol.compression import compress
from klamm.protocol.message_sets import layout, lz4_frames
from klamm.protocol.schema import WireField, wire_fields

# Brokers speak these among themselves; here a client would only hurt the cluster.
_NOT_CLIENTS: Final = frozenset(
    {
        *(ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA),
        *(ApiKey.CONTROLLED_SHUTDOWN, ApiKey.ALTER_PARTITION, ApiKey.ALLOCATE_PRODUCER_IDS),
        *(ApiKey.WRITE_TXN_MARKERS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE),
    }
)
# A member that joins alone waits for nobody; these live in scenes.
_IN_SCENES: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
TOPICS: Final = ("orders", "single", "compacted")
# What is compressed anew has not the same length in both; these have only old clients.
OLD_TOPICS: Final = ("old", "old-compacted")
_OLD_CODECS: Final = (0, 0, 0, 1, 2, 3, 4)
TIME_MS: Final = 1_700_000_000_000
_CANNOT_EXIST: Final = ("", ".", "..", "a b", "x" * 250)
_IDS_IN_METADATA: Final = 12
_MAGIC_AT: Final = 16  # in a batch
_BATCHES_SINCE: Final = 3  # of Produce
_SPOILT: Final = ("cut", "more", "version")


class Asked(NamedTuple):
    """One request, the same for both systems up to their own ids."""

    key: int
    version: int
    tree: Tree
    spoil: str = ""

    def as_json(self) -> dict[str, Any]:
        title = APIS[self.key].title
        return {"api": title, "version": self.version, "spoil": self.spoil, "request": self.tree}


class Dice:
    """A stream of requests that is the same for the same seed."""

    def __init__(self, seed: int, versions: Mapping[int, tuple[int, int]]) -> None:
        self.random = random.Random(seed)
        self._versions = {k: v for k, v in versions.items() if k not in _NOT_CLIENTS}
        # Later versions are for brokers that verify a transaction.
        if ApiKey.ADD_PARTITIONS_TO_TXN in self._versions:
            self._versions[ApiKey.ADD_PARTITIONS_TO_TXN] = (0, 3)
        self._singles = [key for key in self._versions if key not in _IN_SCENES]
        self._made = 0

    def requests(self, count: int) -> Iterator[Asked]:
        """That many requests; a scene is not cut short."""
        given = 0
        while given < count:
            for asked in self._scene():
                given += 1
                yield asked

    def _scene(self) -> Sequence[Asked]:
        if self.random.random() < 0.06:
            scenes = (
                *(self._member, self._producer, self._transaction, self._strange_batch),
                self._old_client,
            )
            scene = self.random.choice((*scenes, *SCENES))
            return scene(self) if scene in SCENES else scene()
        return (self._single(self.random.choice(self._singles)),)

    def _single(self, key: int) -> Asked:
        version = self._version(key)
        tree = _Maker(self, key, version).struct(codec.message_class(key, "Request"))
        if key == ApiKey.METADATA and version < _IDS_IN_METADATA:
            # The field is there and may not be used, which the whole answer suffers from.
            for topic in tree.get("topics") or ():
                topic.pop("topic_id", None)
                topic["name"] = topic["name"] or ""
        if spoiling := [u for u in tree.get("upsertions") or () if u["salted_password"] == "hex:"]:
            tree |= {"deletions": [], "upsertions": spoiling[:1]}  # in Kafka the whole request is
        spoil = self.random.choice(_SPOILT) if self.random.random() < 0.04 else ""
        return Asked(key, version, tree, spoil)

    def _version(self, key: int, at_least: int = 0, at_most: int = 99) -> int:
        low, high = self._versions[key]
        return self.random.randint(max(low, at_least), min(high, at_most))

    def ask(self, key: ApiKey, at_least: int = 0, at_most: int = 99, **fields: Any) -> Asked:
        """A request of a scene; fields that its version does not have are left out."""
        version = self._version(key, at_least, at_most)
        known = dict(wire_fields(codec.message_class(key, "Request")))
        return Asked(
            key, version, {n: v for n, v in fields.items() if version in known[n].versions}
        )

    def fresh(self, word: str) -> str:
        """A name that nothing had before."""
        self._made += 1
        return f"{word}-{self._made}"

    def topic(self) -> str:
        roll = self.random.random()
        if roll < 0.7:
            return self.random.choice(TOPICS)
        if roll < 0.85:
            return f"made-{self.random.randint(1, max(1, self._made))}"
        return self.random.choice(("nowhere", "__consumer_offsets", *_CANNOT_EXIST))

    def _member(self) -> Sequence[Asked]:
        """The life of one member of a classic group, with a slip here and there."""
        group = self.fresh("group")
        joining: dict[str, Any] = {
            "group_id": group,
            "session_timeout_ms": self.random.choice((30_000, 30_000, 1, 10_000_000)),
            "rebalance_timeout_ms": 1_000,
            "protocol_type": self.random.choice(("consumer", "consumer", "connect")),
            "protocols": [{"name": "range", "metadata": "hex:000100000000ffffffff"}],
        }
        who = {"group_id": group, "generation_id": "$generation", "member_id": "$member"}
        stray = {**who, "generation_id": 77}
        committed = {"partition_index": 0, "committed_offset": 3, "committed_metadata": "m"}
        commit = {
            "group_id": group,
            "generation_id_or_member_epoch": "$generation",
            "member_id": "$member",
            "retention_time_ms": -1,
            "topics": [{"name": "orders", "partitions": [committed]}],
        }
        work = {"member_id": "$member", "assignment": "hex:0001"}
        life = [
            self.ask(ApiKey.JOIN_GROUP, member_id="", **joining),
            self.ask(ApiKey.JOIN_GROUP, member_id="$member", **joining),
            self.ask(ApiKey.SYNC_GROUP, assignments=[work], **self.random.choice((who, stray))),
            self.ask(ApiKey.HEARTBEAT, **self.random.choice((who, stray))),
            self.ask(ApiKey.DESCRIBE_GROUPS, groups=[group, "nobody"]),
            self.ask(ApiKey.DELETE_GROUPS, groups_names=[group]),
            self.ask(ApiKey.OFFSET_COMMIT, at_most=8, **commit),
            self.ask(ApiKey.LIST_GROUPS),
            self.ask(
                ApiKey.LEAVE_GROUP,
                member_id="$member",
                group_id=group,
                members=[{"member_id": "$member"}],
            ),
            self.ask(ApiKey.HEARTBEAT, **who),
            self.ask(ApiKey.DELETE_GROUPS, groups_names=[group]),
        ]
        return [each for each in life if self.random.random() < 0.9]

    def _producer(self) -> Sequence[Asked]:
        """Batches of an idempotent producer: in order, twice, and with a gap."""
        begin = self.ask(
            ApiKey.INIT_PRODUCER_ID, transactional_id=None, transaction_timeout_ms=60_000
        )
        sequences = self.random.choice(((0, 0, 1), (0, 1, 1, 0), (5,), (0, 7)))
        return [begin, *(self._produce(each) for each in sequences)]

    def _transaction(self) -> Sequence[Asked]:
        """A transaction from its opening to its end, with steps left out."""
        name = self.fresh("txn")
        who = {"transactional_id": name, "producer_id": "$producer", "producer_epoch": "$epoch"}
        old = {f"v3_and_below_{field}": value for field, value in who.items()}
        where = [{"name": "orders", "partitions": [0]}]
        offset = {"partition_index": 0, "committed_offset": 1, "committed_metadata": None}
        life = [
            self.ask(
                ApiKey.INIT_PRODUCER_ID,
                transactional_id=name,
                transaction_timeout_ms=self.random.choice((60_000, 60_000, 0, 2**31 - 1)),
                producer_id=-1,
                producer_epoch=-1,
            ),
            self.ask(ApiKey.ADD_PARTITIONS_TO_TXN, at_most=3, v3_and_below_topics=where, **old),
            self.ask(ApiKey.ADD_OFFSETS_TO_TXN, group_id="t-3", **who),
            self.ask(
                ApiKey.TXN_OFFSET_COMMIT,
                group_id="t-3",
                topics=[{"name": "orders", "partitions": [offset]}],
                **who,
            ),
            self.ask(ApiKey.DESCRIBE_TRANSACTIONS, transactional_ids=[name, "nobody"]),
            self.ask(ApiKey.LIST_TRANSACTIONS),
            self.ask(ApiKey.END_TXN, committed=self.random.random() < 0.5, **who),
            self.ask(ApiKey.END_TXN, committed=True, **who),
        ]
        kept = [each for each in life[1:] if self.random.random() < 0.85]
        # An open transaction would hold back what others may read: it always ends.
        return [life[0], *kept, life[-1]]

    def _strange_batch(self) -> Sequence[Asked]:
        """A batch of a format that does not exist yet; alone, for it may spoil its neighbours."""
        made = bytearray(batch.encode_batch([batch.Record(0, TIME_MS, None, b"v")]))
        made[_MAGIC_AT] = 9
        data = [{"index": 0, "records": f"hex:{made.hex()}"}]
        topics = [{"name": "single", "partition_data": data}]
        return (self.ask(ApiKey.PRODUCE, acks=-1, timeout_ms=5_000, topic_data=topics),)

    def _old_client(self) -> Sequence[Asked]:
        """Message sets of a client from before 0.11, and what such a client reads."""
        asked = []
        for _ in range(4):
            place = {"index": 0, "records": f"hex:{message_set(self.random, _OLD_CODECS).hex()}"}
            topic = self.random.choice(OLD_TOPICS)
            asked.append(
                self.ask(
                    ApiKey.PRODUCE,
                    at_most=_BATCHES_SINCE - 1,
                    acks=self.random.choice((-1, 1)),
                    timeout_ms=5_000,
                    topic_data=[{"name": topic, "partition_data": [place]}],
                )
            )
            offset = self.random.choice((0, 5, 9, 10, 12, 15, 20, 30))
            wanted = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1_000_000}
            asked.append(
                self.ask(
                    ApiKey.FETCH,
                    at_most=3,
                    replica_id=-1,
                    max_wait_ms=0,
                    min_bytes=1,
                    max_bytes=1_000_000,
                    topics=[{"topic": topic, "partitions": [wanted]}],
                )
            )
        return asked

    def _produce(self, sequence: int) -> Asked:
        """One batch of the producer that spoke last; the speaker knows its id."""
        data = [{"index": 0, "records": f"$batch:{sequence}"}]
        tree = {
            "acks": -1,
            "timeout_ms": 5000,
            "topic_data": [{"name": "single", "partition_data": data}],
        }
        return Asked(ApiKey.PRODUCE, self._version(ApiKey.PRODUCE, 3), tree)


def records(dice: random.Random) -> bytes:
    """A batch as a producer makes it, or nearly."""
    count = dice.choice((1, 1, 2, 5))
    codec_ = dice.choice((0, 0, 0, 1, 2, 3, 4))
    items = [
        batch.Record(at, TIME_MS + at, dice.choice((None, b"k")), b"v" * dice.choice((0, 1, 100)))
        for at in range(count)
    ]
    whole = bytearray(batch.encode_batch(items, codec=batch.Codec(codec_)))
    fault = dice.random()
    if fault < 0.08:
        whole[-1] ^= 0xFF
    elif fault < 0.12:
        whole = whole[:-2]
    elif fault < 0.16:
        whole = whole * 2
    return bytes(whole)


class _Maker:
    """Fills the fields of one request."""

    def __init__(self, dice: Dice, key: int, version: int) -> None:
        self.dice = dice
        self.random = dice.random
        self.title = APIS[key].title
        self.version = version
        self.flexible = APIS[key].is_flexible(version)

    def struct(self, cls: type, within: str = "") -> Tree:
        return {
            name: self.value(name, wire, wire.kind, within)
            for name, wire in wire_fields(cls)
            if self.version in wire.versions and wire.tag is None
        }

    def value(self, name: str, wire: WireField, kind: str, within: str) -> Tree:
        may_be_null = kind == wire.kind and self.version in wire.nullable
        if may_be_null and name not in _NEVER_EMPTY and self.random.random() < 0.12:
            return None
        if kind == "array":
            counts = (1, 1, 1, 2) if name in _NEVER_EMPTY else (0, 1, 1, 1, 1, 2)
            count = self.random.choice(counts[:2] if name in _AT_MOST_ONE else counts)
            drawn = [self.value(name, wire, wire.element or "", within) for _ in range(count)]
            return _distinct(drawn)
        if kind == "struct":
            assert wire.struct is not None
            return self.struct(wire.struct, name)
        if name == "records":
            old = self.version < _BATCHES_SINCE and self.random.random() < 0.9
            return f"hex:{(message_set if old else records)(self.random).hex()}"
        words = (f"{within}.{name}", f"{self.title}.{name}", name)
        pool = next((_POOLS[word] for word in words if word in _POOLS), None)
        if pool is not None:
            drawn = pool(self.dice) if callable(pool) else self.random.choice(pool)
            return "" if drawn is None and self.version not in wire.nullable else drawn
        return self._any(kind)

    def _any(self, kind: str) -> Tree:
        match kind:
            case "string":
                return self.random.choice(("", "a", "nobody"))
            case "bytes":
                return "hex:" + self.random.randbytes(self.random.choice((0, 1, 20))).hex()
            case "uuid":
                return self.random.choice((str(ZERO_ID), "$topic:orders", "$topic:nowhere"))
            case "bool":
                return self.random.random() < 0.5
            case "float64":
                return self.random.choice((0.0, 1.0, 1e9, -1.0))
            case _:
                return self.random.choice((-1, 0, 1, 2, 100))


def _distinct(items: list[Tree]) -> list[Tree]:
    """Elements with different names: what one request says twice, each may answer as it likes."""
    named = {repr(item) if (name := name_of(item)) is None else name: item for item in items}
    return list(named.values())


def _new_topic(dice: Dice) -> str:
    if dice.random.random() < 0.6:
        return dice.fresh("made")
    return dice.random.choice((*TOPICS, *_CANNOT_EXIST, "made.1", "made_1"))


def _doomed_topic(dice: Dice) -> str:
    """A topic to delete or to change: never one that the other requests count on."""
    if dice.random.random() < 0.7:
        return f"made-{dice.random.randint(1, max(1, dice._made))}"
    return dice.random.choice(("nowhere", *_CANNOT_EXIST))


def message_set(dice: random.Random, codecs: Sequence[int] = (0,)) -> bytes:
    """The records of a producer from before 0.11, or nearly."""
    magic, codec_ = dice.choice((0, 1)), dice.choice(codecs)
    count = dice.choice((1, 1, 2, 5, 0))
    plain = [
        layout.message(
            dice.choice((magic,) * 30 + (1 - magic,)),
            dice.choice((at, 0, 77)),
            dice.choice((TIME_MS + at, TIME_MS + at, -1)),
            dice.choice((None, b"k")),
            dice.choice((None, b"", b"v", b"v" * 100)),
            dice.choice((0,) * 12 + (1, 8)),
        )
        for at in range(count)
    ]
    whole = b"".join(plain)
    if codec_:
        inner = compress(codec_, whole)
        if codec_ == batch.Codec.LZ4 and magic == 0:
            inner = lz4_frames.from_standard(inner)
        whole = layout.message(magic, count - 1, TIME_MS, None, inner, codec_)
    fault = dice.random()
    if fault < 0.08:
        return whole[:-1] + bytes((whole[-1] ^ 0xFF,)) if whole else whole
    if fault < 0.14:
        return whole[:-2]
    return whole * 2 if fault < 0.2 else whole


# Without these Kafka does not answer at all, and everything would wait for it.
_NEVER_EMPTY: Final = frozenset({"groups", "records"})
# Of several changes of one quota only one of the two may refuse some, and their states go apart.
_AT_MOST_ONE: Final = frozenset({"ops"})
_GROUPS: Final = ("g-committed", "g-empty", "group-1", "group-2", "nobody", "")
_PARTITIONS: Final = (0, 0, 0, 0, 1, 2, 7, -1)
_TIMEOUTS: Final = (5_000, 5_000, 30_000)
_SETTINGS: Final = (
    *("retention.ms", "cleanup.policy", "min.insync.replicas", "max.message.bytes"),
    *("compression.type", "segment.bytes", "unknown.thing", "message.timestamp.type", ""),
)
_VALUES: Final = ("1000000000", "compact", "delete", "-1", "x", "", "2147483647", "gzip", "1")
_Pool = Sequence[Any] | Callable[[Dice], Any]
_POOLS: Final[Mapping[str, _Pool]] = {
    # Names.
    "topic": Dice.topic,
    "name": Dice.topic,
    "topic_names": _doomed_topic,
    "CreateTopics.name": _new_topic,
    "DeleteTopics.name": _doomed_topic,
    "DeleteTopics.topic_id": (str(ZERO_ID), "$topic:nowhere", "$topic:made-1", "$topic:made-2"),
    "CreatePartitions.name": _doomed_topic,
    "AlterPartitionReassignments.name": Dice.topic,
    "topic_id": ("$topic:orders", "$topic:single", "$topic:nowhere", str(ZERO_ID)),
    "group_id": _GROUPS,
    # In Kafka a commit that fails can leave an empty group; these are nobody else's.
    "TxnOffsetCommit.group_id": ("t-1", "t-2"),
    # Only klamm serves the new protocol here: its groups are nobody else's.
    "ConsumerGroupHeartbeat.group_id": ("c-1", "c-2", ""),
    "group_ids": _GROUPS,
    "groups": _GROUPS,
    "groups_names": _GROUPS,
    "key": _GROUPS,
    "coordinator_keys": _GROUPS,
    "member_id": ("", "$member", "nobody"),
    "group_instance_id": (None, None, "i-1"),
    "transactional_id": (None, "txn-a", "nobody", ""),
    "transactional_ids": ("txn-a", "nobody", ""),
    "v3_and_below_transactional_id": ("txn-a", "nobody", ""),
    "DescribeUserScramCredentials.name": ("ada", "nobody", ""),
    "AlterUserScramCredentials.name": ("ada", "bea", ""),
    # Numbers.
    "partition": _PARTITIONS,
    "partitions": _PARTITIONS,
    "partition_index": _PARTITIONS,
    "partition_indexes": _PARTITIONS,
    "index": _PARTITIONS,
    "replica_id": (-1,),
    "broker_ids": (0, 0, 0, 1, -1),
    "replicas": (0, 0, 0, 1, -1),
    "num_partitions": (1, 1, 2, 3, -1, 0, -5),
    "replication_factor": (1, 1, 1, -1, 0, 2, -3),
    "count": (1, 2, 3, 4, 0, -1),
    "timeout_ms": _TIMEOUTS,
    "transaction_timeout_ms": (60_000, 60_000, 0, -1, 2**31 - 1),
    "max_wait_ms": (0, 0, 50),
    "min_bytes": (0, 1, 1, 1_000_000),
    "max_bytes": (2**31 - 1, 100_000, 1, 0),
    "partition_max_bytes": (1_000_000, 1_000_000, 1, 0),
    "fetch_offset": (0, 0, 1, 5, 9, 10, 11, 10_000, -1),
    "DeleteRecords.offset": (0, 1, 2, -1, -2, 10_000),
    "timestamp": (-1, -2, -3, 0, TIME_MS, TIME_MS + 3, TIME_MS + 10**9, -4, -9),
    "committed_offset": (0, 3, -1, 10**12),
    "current_leader_epoch": (-1, -1, 0, 1, 5, -2),
    "partitions.current_leader_epoch": (-1, -1, 0, 1, 5),
    "leader_epoch": (0, 0, 1, 5, -1),
    "last_fetched_epoch": (-1,),
    "committed_leader_epoch": (-1, 0, 5),
    "session_id": (0, 0, 0, 12345),
    "session_epoch": (-1, -1, 0, 3),
    "isolation_level": (0, 1),
    "retention_time_ms": (-1,),
    "generation_id": (-1, 1, 5),
    "generation_id_or_member_epoch": (-1, -1, 1, 5),
    "acks": (-1, 1, 0, 2),
    "producer_id": (-1, 4_000_000),
    "producer_epoch": (-1, 0),
    "v3_and_below_producer_id": (-1, 4_000_000),
    "key_type": (0, 0, 1, 2, -1),
    "endpoint_type": (1, 1, 1, 2, 0),
    "election_type": (0, 0, 1, 2),
    "ListTransactions.producer_id_filters": (0, 1, -1),
    "duration_filter": (-1, 0, 10**9),
    # Settings, quotas, ACLs.
    "resource_type": (2, 2, 2, 4, 1, 8, 0, 99),
    "resource_name": ("orders", "made-1", "made-2", "0", "", "nowhere", "a b", "5"),
    "AlterConfigs.resource_type": (2, 2, 2, 2, 0, 99, 1),
    "AlterConfigs.resource_name": ("made-1", "made-2", "made-3", "nowhere", "", "a b"),
    "IncrementalAlterConfigs.resource_type": (2, 2, 2, 2, 0, 99, 1),
    "IncrementalAlterConfigs.resource_name": ("made-1", "made-2", "made-3", "nowhere", "", "a b"),
    "configs.name": _SETTINGS,
    "configuration_keys": ("retention.ms", "cleanup.policy", "unknown.thing", ""),
    "value": _VALUES,
    "AlterClientQuotas.value": (1e9, 5e8),
    "AlterClientQuotas.key": (
        "producer_byte_rate",
        "consumer_byte_rate",
        "request_percentage",
        "x",
    ),
    "config_operation": (0, 0, 1, 2, 3, 9),
    "entity_type": ("user", "client-id", "ip", "x", ""),
    "entity_name": ("ada", "elsewhere", "10.0.0.1", "no address"),
    "match_type": (0, 1, 2, 9),
    "match": (None, "ada", "elsewhere"),
    "resource_type_filter": (1, 2, 3, 0, 99),
    "pattern_type_filter": (1, 2, 3, 4, 0, 99),
    "resource_pattern_type": (3, 4, 0, 1),
    "operation": (1, 2, 3, 0, 99),
    "permission_type": (1, 2, 3, 0),
    "principal": ("User:ada", "ada", ""),
    "mechanism": (0, 1, 2, 9),
    "iterations": (4096, 8192, 1, 20_000),
    "salt": ("hex:00112233", "hex:"),
    "salted_password": ("hex:" + "ab" * 32, "hex:" + "ab" * 64, "hex:"),
    "states_filter": ("Stable", "Empty", "Nonsense"),
    "types_filter": ("classic", "consumer", "x"),
    "state_filters": ("Ongoing", "Nonsense"),
    "path": ("/nowhere",),
    "metadata": ("hex:00",),
    "client_software_name": ("differ", "a b", ""),
    "client_software_version": ("1.0", "1 0", ""),
    "allow_auto_topic_creation": (False,),
    "rack_id": ("",),
}
