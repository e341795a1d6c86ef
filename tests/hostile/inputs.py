"""Hostile inputs by the block, made from the declarations of the messages and a seed.

An input is the bytes of one frame, or of what pretends to be one. Most are whole messages of any
API and version whose values nobody would choose: boundaries, names that are paths, the same thing
twice, nothing where something must be. The others are damaged afterwards: cut, extended, flipped,
counted wrongly, sent as another version or another API.

Inputs that an open cluster must obey are kept away from the healthy user: who deletes a topic or
changes a setting names topics of the attacker's, and settings of brokers are only validated.
"""

from __future__ import annotations

import json
import random
import struct
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from hostile import bombs
from klamm.protocol import codec
from klamm.protocol.apis import APIS, ApiKey
from klamm.protocol.frames import FRAME_SIZE_MAX
from klamm.protocol.private import PrivateKey
from klamm.protocol.schema import WireField, wire_fields
from klamm.protocol.varint import uvarint

BLOCK: Final = 1000
VICTIMS: Final = ("victim-0", "victim-1", "victim-2")

_BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_BOUNDS: Final = {
    kind: (0, 1, -1, -2, (1 << bits - 1) - 1, -(1 << bits - 1), 1 << bits - 2, 127, 100)
    for kind, bits in _BITS.items()
}
_NAMES: Final = (
    *VICTIMS,
    *VICTIMS,
    "",
    ".",
    "..",
    "../x",
    "../../../../tmp/x",
    "/abs",
    "a/b",
    "a\0b",
    "a\nb",
    "\x1b[2J\x07",
    "n" * 249,
    "n" * 250,
    "n" * 400,
    "ü" * 124,
    "\U0001f40d",
    "__consumer_offsets",
    "__transaction_state",
    "__klamm_ledger",
    "__admin_client",
    "a b",
    "0",
    "-1",
    "consumer",
    "range",
    "uniform",
    "cleanup.policy",
    "retention.ms",
    "compact",
    "max.connections",
    "NaN",
    "9" * 40,
    "((a|b|c)*){100}x?",
)
# What somebody would say who means it: such messages get further than others.
_PLAUSIBLE: Final = (*VICTIMS, *VICTIMS, "", "", "group-0", "group-1", "consumer", "range", "0")
# They only look, so they may look at the healthy user's topic too.
_LOOKERS: Final = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.ALTER_PARTITION,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.OFFSET_FETCH,
    }
)
_TARGETS: Final = tuple(
    (int(api.key), version)
    for api in APIS.values()
    for version in range(api.served.low, api.served.high + 1)
)
_PRIVATE_WORDS: Final = (
    "topic",
    "topics",
    "limit",
    "after",
    "waiting",
    "broker",
    "kind",
    "partitions",
    "replicas",
    "partition",
    "assignment",
    "configs",
    "name",
    "replication_factor",
    "election",
    "timeout_ms",
    "controller",
    "controller_epoch",
    "broker_epoch",
    "manifest",
    "sha256",
    "records",
    "topic_id",
)
_POISONS: Final = tuple(bombs.poisons().values())
_SMALL_BOMBS: Final = (bombs.empty_records(50_000), bombs.counted_records(5_000, keyed=True))


@dataclass(frozen=True, slots=True)
class Input:
    """Bytes for a connection, and what they were before they were damaged."""

    data: bytes
    what: str
    is_whole: bool  # a frame that is as long as it says: the next one may follow on the connection


def block(seed: int, number: int, topic_ids: tuple[uuid.UUID, ...] = ()) -> list[Input]:
    """The inputs of one block: the same for the same seed and number."""
    maker = _Maker(random.Random(f"{seed}/{number}"), topic_ids)
    return [maker.input() for _ in range(BLOCK)]


class _Maker:
    """Makes inputs from dice."""

    def __init__(self, dice: random.Random, topic_ids: tuple[uuid.UUID, ...]) -> None:
        self._dice = dice
        self._ids = topic_ids
        self._names: tuple[str, ...] = _NAMES
        self._version = 0
        self._is_flexible = False
        self._is_plausible = False
        self._budget = 0  # how many values a message may still have

    def input(self) -> Input:
        luck = self._dice.random()
        if luck < 0.02:
            return self._noise()
        if luck < 0.10:
            return self._private()
        key, version = self._dice.choice(_TARGETS)
        return self._of(key, version)

    def _of(self, key: int, version: int) -> Input:
        body = self._body(key, version)
        what = f"{APIS[key].title} v{version}"
        damage = self._dice.random()
        if damage < 0.7:
            return Input(self._frame(key, version, body), what, True)
        name, body = self._damaged(body)
        if damage < 0.95 or key in _LOOKERS:
            return Input(self._frame(key, version, body), f"{what}, {name}", True)
        # What only looks in one API may do something in another: those stay what they are.
        other = self._dice.choice((*APIS, -1, 1009, 9999))
        odd = self._dice.choice((version, 0, 1, -1, 99, 2**15 - 1))
        return Input(self._frame(other, odd, body), f"{what} sent as {other} v{odd}", True)

    # Whole messages

    def _body(self, key: int, version: int) -> bytes:
        self._is_plausible = self._dice.random() < 0.35
        self._names = _PLAUSIBLE if self._is_plausible else _NAMES
        if key in _LOOKERS:
            self._names = (*self._names, *("healthy",) * 6)
        self._version = version
        self._is_flexible = APIS[key].is_flexible(version)
        self._budget = 120
        message = self._struct(codec.message_class(key, "Request"))
        _tame(key, message, self._dice)
        return codec.encode_request(key, version, message)

    def _struct(self, cls: type) -> Any:
        return cls(
            **{
                name: self._value(name, wire, wire.kind)
                for name, wire in wire_fields(cls)
                if self._version in wire.versions and (self._is_flexible or wire.tag is None)
            }
        )

    def _value(self, name: str, wire: WireField, kind: str) -> Any:
        dice = self._dice
        self._budget -= 1
        if kind == wire.kind and self._version in wire.nullable and dice.random() < 0.2:
            return None
        if kind == "array":
            return self._array(name, wire)
        if kind == "struct":
            assert wire.struct is not None
            return self._struct(wire.struct)
        if kind == "string":
            return dice.choice(self._names)
        if kind == "bytes":
            return self._bytes(name)
        if kind == "uuid":
            return dice.choice((*self._ids, uuid.UUID(int=0), uuid.UUID(int=dice.getrandbits(128))))
        if kind == "bool":
            return dice.random() < 0.5
        if kind == "float64":
            return dice.choice((0.0, -1.0, 1e308, float("inf"), float("nan"), 5e-324))
        return self._number(name, kind)

    def _number(self, name: str, kind: str) -> int:
        dice = self._dice
        if "timeout" in name or "wait" in name:
            return dice.choice((0, 0, 1, 1, 5, -1))
        if self._is_plausible:
            return dice.choice((0, 0, 0, 1, 2, -1))
        if dice.random() < 0.5:
            return dice.choice(_BOUNDS[kind])
        return dice.randrange(-2, 8)

    def _array(self, name: str, wire: WireField) -> list[Any]:
        dice = self._dice
        count = dice.choice((0, 1, 1, 1, 2, 3)) if self._budget > 0 else 0
        made = [self._value(name, wire, wire.element or "") for _ in range(count)]
        if made and not self._is_plausible and dice.random() < 0.15:
            made *= dice.choice((2, 2, 3, 50))  # the same thing again
        return made

    def _bytes(self, name: str) -> bytes:
        dice = self._dice
        if name != "records":
            return dice.choice((b"", b"\0", b"\0\1\0\0\0\1\0\6topic1\0\0\0\0", dice.randbytes(40)))
        luck = dice.random()
        if luck < 0.3:
            return dice.choice(_POISONS)
        if luck < 0.4:
            return dice.choice(_SMALL_BOMBS)
        whole = bombs.batch(
            b"\x0c\0\0\0\1\1\0",
            dice.choice((1, 1, 1, 2, 0, -1)),
            codec=dice.choice((0, 0, 0, 1, 2, 3, 4, 5, 6, 7)),
            max_timestamp=dice.choice((bombs.BASE_TIME, 0, -1, 2**63 - 1)),
            attributes=dice.choice((0, 0, 0, 8, 16, 32, 48, 64, 32767 - 7)),
            producer_id=dice.choice((-1, -1, 0, 4711, 2**63 - 1)),
            producer_epoch=dice.choice((-1, 0, 32767)),
            base_sequence=dice.choice((-1, 0, 5, 2**31 - 1)),
        )
        if luck < 0.6:
            return whole
        return self._damaged(whole * dice.choice((1, 1, 2)))[1]

    def _private(self) -> Input:
        dice = self._dice
        key = dice.choice((*PrivateKey, 1009, 1099))
        luck = dice.random()
        if luck < 0.7:
            words = dice.sample(_PRIVATE_WORDS, dice.randrange(0, 6))
            body = json.dumps({word: self._json(3) for word in words}).encode()
        elif luck < 0.8:
            depth = dice.choice((10, 500, 2000))
            body = dice.choice((b"[", b'{"a":', b'{"topics":[')) * depth
        else:
            body = self._damaged(b'{"topic":"victim-0","limit":10,"topics":["a"]}')[1]
        return Input(self._frame(key, 0, body), f"private {key}", True)

    def _json(self, depth: int) -> Any:
        dice = self._dice
        if depth and dice.random() < 0.5:
            items = [self._json(depth - 1) for _ in range(dice.randrange(0, 4))]
            keys = (dice.choice((*_PRIVATE_WORDS, *_NAMES)) for _ in items)
            return items if dice.random() < 0.5 else dict(zip(keys, items, strict=True))
        numbers = (0, 1, -1, 2**31, 2**63, 10**400, 0.5, 1e308, float("nan"), float("inf"))
        kinds = ("create", "grow", "delete", "move", "elect", "preferred")
        return dice.choice((None, True, *numbers, *_NAMES, *kinds, str(uuid.UUID(int=1))))

    # Frames

    def _frame(self, key: int, version: int, body: bytes) -> bytes:
        dice = self._dice
        correlation = dice.choice((0, -1, 2**31 - 1, dice.randrange(1 << 31)))
        head = struct.pack(">hhi", key, version, correlation)
        api = APIS.get(key)
        layout = 1
        if api is not None and version in api.served:
            layout = api.request_header_version(version)
        if layout > 0:
            if dice.random() < 0.03:
                head += dice.choice((b"\xff\xff", b"\xff\xfe", b"\x75\x30", b"\0\2\xff\xfe"))
            else:
                name = dice.choice((b"fuzz", b"fuzz", b"", b"klamm", b"__admin_client"))
                head += struct.pack(">h", len(name)) + name
        if layout == 2:
            head += self._tags()
        return struct.pack(">i", len(head) + len(body)) + head + body

    def _tags(self) -> bytes:
        if self._dice.random() < 0.9:
            return b"\0"
        return b"\x02\x05\x03abc\x7f\0"

    def _noise(self) -> Input:
        dice = self._dice
        size = dice.choice((0, -1, -(2**31), FRAME_SIZE_MAX + 1, 2**31 - 1, FRAME_SIZE_MAX, 9))
        choices: tuple[Callable[[], bytes], ...] = (
            lambda: struct.pack(">i", size) + dice.randbytes(40),
            lambda: dice.randbytes(dice.choice((1, 3, 4, 60, 3000))),
            lambda: b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
            lambda: bytes.fromhex("16030100c8010000c40303") + bytes(190),
            lambda: struct.pack(">ihhi", 100, ApiKey.METADATA, 1, 1),
        )
        return Input(dice.choice(choices)(), "noise", False)

    # Damage

    def _damaged(self, body: bytes) -> tuple[str, bytes]:
        dice = self._dice
        if not body:
            return "extended", dice.randbytes(8)
        at = dice.randrange(len(body))
        match dice.randrange(7):
            case 0:
                return "cut", body[:at]
            case 1:
                return "extended", body + dice.randbytes(dice.choice((1, 4, 300)))
            case 2:
                flipped = bytearray(body)
                for _ in range(dice.choice((1, 1, 2, 8))):
                    flipped[dice.randrange(len(body))] ^= 1 << dice.randrange(8)
                return "flipped", bytes(flipped)
            case 3:
                count = dice.choice((2**31 - 1, -1, -(2**31), 65536, 10**6))
                return "counted wrongly", body[:at] + struct.pack(">i", count) + body[at + 4 :]
            case 4:
                count = dice.choice((2**31, 2**35 - 1, 0, 1 << 20))
                return "counted wrongly", body[:at] + uvarint(count) + body[at + 1 :]
            case 5:
                tags = uvarint(dice.choice((1, 2, 200))) + b"\x09\x02ab" * 2
                return "with unknown tags", body[:-1] + tags
            case _:
                other = dice.randrange(len(body))
                return "spliced", body[:at] + body[min(at, other) :]


def _tame(key: int, message: Any, dice: random.Random) -> None:
    """Take back what an open cluster would have to obey and everybody would feel."""
    if key in (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_CLIENT_QUOTAS):
        message.validate_only = True
    elif key == ApiKey.CREATE_TOPICS:
        # A topic of a million partitions is a wish; two thousand millions must be refused.
        for topic in message.topics:
            if topic.num_partitions > 8:
                topic.num_partitions = dice.choice((8, 2**31 - 1))
    elif key == ApiKey.CREATE_PARTITIONS:
        for topic in message.topics:
            if topic.count > 8:
                topic.count = dice.choice((4, 2**31 - 1))
    elif key == ApiKey.PRODUCE:
        message.acks = dice.choice((1, 1, -1, 2, -5))  # 0 is not answered
    elif key == ApiKey.JOIN_GROUP:
        message.session_timeout_ms = dice.choice((6000, 6000, 0, -1))
    elif key == ApiKey.FETCH:
        message.min_bytes = dice.choice((0, 0, -1, 1, 2**31 - 1))
    elif key == ApiKey.ELECT_LEADERS and message.topic_partitions is None:
        message.topic_partitions = []


def coverage(inputs: Iterator[Input]) -> dict[str, int]:
    """How often each API and version was sent undamaged."""
    found: dict[str, int] = {}
    for made in inputs:
        found[made.what] = found.get(made.what, 0) + 1
    return found
