"""Every message in every version served: our bytes are kio's bytes, and garbage is refused."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import random
import types
import typing
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioError
from kio.serial import entity_writer

from klamm.model.errors import ProtocolError
from klamm.model.names import ZERO_ID
from klamm.protocol import codec
from klamm.protocol.apis import APIS, ApiKey
from klamm.protocol.compiling.writer import MessageWriter
from klamm.protocol.schema import WireField
from wire.messages import random_message, random_text

NOT_IN_KIO = frozenset(range(4, 8))
CASES = [
    pytest.param(api.key, version, direction, id=f"{api.title}-v{version}-{direction}")
    for api in APIS.values()
    for version in range(api.served.low, api.served.high + 1)
    for direction in ("Request", "Response")
]
# The versions that only brokers before Kafka 4 serve; their bytes are in test_old_versions.py.
OLDER_THAN_KIO = frozenset(
    [(key, 0) for key in (2, 19, 20, 23, 27, 29, 30, 31, 32, 34, 35, 38, 39, 40, 41, 56)]
    + [(key, 1) for key in (8, 19, 23, 56)]
    + [(0, version) for version in range(3)]
    + [(1, version) for version in range(4)]
)
KIO_CASES = [
    case
    for case in CASES
    if case.values[0] not in NOT_IN_KIO and case.values[:2] not in OLDER_THAN_KIO
]
few = settings(max_examples=6, deadline=None)


def decode(key: int, version: int, direction: str, body: bytes) -> Any:
    read = codec.decode_request if direction == "Request" else codec.decode_response
    return read(key, version, body)


def encode(key: int, version: int, direction: str, message: Any) -> bytes:
    write = codec.encode_request if direction == "Request" else codec.encode_response
    return write(key, version, message)


INTEGERS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63, "error_code": 0}


def kio_value(dice: random.Random, hint: Any, kafka_type: str | None) -> Any:
    """A random value for a field of a kio class."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        (inner,) = (a for a in typing.get_args(hint) if a is not type(None))
        return None if dice.random() < 0.3 else kio_value(dice, inner, kafka_type)
    if typing.get_origin(hint) is tuple:
        count = dice.choice((0, 1, 2, 3, 130 if kafka_type else 2))
        return tuple(kio_value(dice, typing.get_args(hint)[0], kafka_type) for _ in range(count))
    if dataclasses.is_dataclass(hint):
        return kio_instance(dice, hint)
    match kafka_type:
        case "error_code":
            return dice.choice(list(KioError))
        case "timedelta_i32":
            return timedelta(milliseconds=dice.randrange(-(2**31), 2**31))
        case "timedelta_i64":
            return timedelta(milliseconds=dice.randrange(-1, 2**40))
        case "datetime_i64":
            return datetime.fromtimestamp(dice.randrange(2**31), UTC)
        case "bool":
            return dice.random() < 0.5
        case "float64":
            return dice.uniform(-1e9, 1e9)
        case "string":
            return random_text(dice)
        case "bytes" | "records":
            return dice.randbytes(dice.choice((0, 1, 100, 300)))
        case "uuid":
            return uuid.UUID(int=dice.getrandbits(127) + 1)
        case _:
            bits = INTEGERS[kafka_type or ""]
            return dice.choice((0, -1, dice.randrange(-(1 << bits), 1 << bits)))


def kio_instance(dice: random.Random, cls: Any) -> Any:
    values = {}
    for field in dataclasses.fields(cls):
        is_default = "tag" in field.metadata and dice.random() < 0.5
        values[field.name] = (
            field.default
            if is_default
            else kio_value(dice, field.type, field.metadata.get("kafka_type"))
        )
    return cls(**values)


def kio_class(key: int, version: int, direction: str) -> Any:
    load = load_request_schema if direction == "Request" else load_response_schema
    return load(key, version)


def lifted(value: Any) -> Any:
    """A kio value as ours would hold it."""
    if isinstance(value, tuple):
        return [lifted(item) for item in value]
    if isinstance(value, timedelta):
        return round(value / timedelta(milliseconds=1))
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    return value.value if isinstance(value, KioError) else value


def assert_same(ours: Any, theirs: Any) -> None:
    for field in dataclasses.fields(theirs):
        value = getattr(theirs, field.name)
        kafka_type = field.metadata.get("kafka_type", "")
        is_time = kafka_type.startswith(("timedelta", "datetime"))
        mine = getattr(ours, field.name + ("_ms" if is_time else ""))
        if dataclasses.is_dataclass(value):
            assert_same(mine, value)
        elif isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
            for one, other in zip(mine, value, strict=True):
                assert_same(one, other)
        elif value is None and (is_time or kafka_type == "uuid"):
            assert mine == (-1 if is_time else ZERO_ID)
        else:
            assert mine == lifted(value)


@pytest.mark.parametrize(("key", "version", "direction"), KIO_CASES)
@few
@given(seed=st.integers(0, 2**32))
def test_bytes_are_those_of_kio(key: int, version: int, direction: str, seed: int) -> None:
    theirs = kio_instance(random.Random(seed), kio_class(key, version, direction))
    stream = io.BytesIO()
    entity_writer(type(theirs))(stream, theirs)
    ours = decode(key, version, direction, stream.getvalue())
    assert_same(ours, theirs)
    assert encode(key, version, direction, ours) == stream.getvalue()


@pytest.mark.parametrize(("key", "version", "direction"), CASES)
@few
@given(seed=st.integers(0, 2**32))
def test_round_trip(key: int, version: int, direction: str, seed: int) -> None:
    message = random_message(key, version, direction, random.Random(seed))
    assert decode(key, version, direction, encode(key, version, direction, message)) == message


class FromTheFuture(MessageWriter):
    """Writes a tagged field that nobody knows into every struct, at every depth."""

    def tags(self, fields: list[tuple[str, WireField]], subject: str) -> None:
        tag = self.constant(b"\x63\x02hi")
        if fields:
            super().tags(fields, subject)
            self.lines[-1] = self.lines[-1].replace("uvarint(", "uvarint(1 + ") + f" + {tag}"
        else:
            self.flush()
            self.add(f"{self._out} += one[1] + {tag}")


@pytest.mark.parametrize(
    ("key", "version", "direction"),
    [case for case in CASES if APIS[case.values[0]].is_flexible(case.values[1])],
)
@few
@given(seed=st.integers(0, 2**32))
def test_unknown_tags_are_skipped(key: int, version: int, direction: str, seed: int) -> None:
    message = random_message(key, version, direction, random.Random(seed))
    writer = FromTheFuture(version, True)
    writer.message(type(message))
    body = writer.function("write")(message)
    assert len(body) > len(encode(key, version, direction, message))
    assert decode(key, version, direction, body) == message


@pytest.mark.parametrize(("key", "version", "direction"), CASES)
@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_cut_message_is_refused(key: int, version: int, direction: str, seed: int) -> None:
    body = encode(
        key, version, direction, random_message(key, version, direction, random.Random(seed))
    )
    cuts = range(len(body)) if len(body) < 40 else random.Random(seed).sample(range(len(body)), 40)
    for cut in cuts:
        with pytest.raises(ProtocolError):
            decode(key, version, direction, body[:cut])


@pytest.mark.parametrize(("key", "version", "direction"), CASES)
@few
@given(noise=st.binary(max_size=300), seed=st.integers(0, 2**32))
def test_noise_never_crashes(
    key: int, version: int, direction: str, noise: bytes, seed: int
) -> None:
    dice = random.Random(seed)
    body = bytearray(
        encode(
            key, version, direction, random_message(key, version, direction, random.Random(seed))
        )
    )
    for _ in range(dice.randrange(1, 6)):
        if body:
            body[dice.randrange(len(body))] = dice.randrange(256)
    for bad in (noise, bytes(body)):
        with contextlib.suppress(ProtocolError):
            decode(key, version, direction, bad)


def test_versions_not_served_are_refused() -> None:
    for key, version in ((ApiKey.PRODUCE, 2), (ApiKey.FETCH, 18), (9999, 0)):
        with pytest.raises(ProtocolError):
            codec.decode_request(key, version, b"")


def steps_of(steps: Any) -> tuple[int, Any]:
    """How often work in steps stopped, and what it came to."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return count, end.value
        count += 1


@pytest.mark.parametrize(("key", "version", "direction"), CASES)
def test_work_in_steps_comes_to_the_same(key: int, version: int, direction: str) -> None:
    dice = random.Random(f"{key} {version} {direction}")
    for _ in range(3):
        message = random_message(key, version, direction, dice)
        body = encode(key, version, direction, message)
        if direction == "Request":
            _, again = steps_of(codec.decode_request_in_steps(key, version, body, 1 << 20))
            assert again == decode(key, version, direction, body)
            for damaged in (body[: len(body) // 2], dice.randbytes(40)):
                with contextlib.suppress(ProtocolError):
                    steps_of(codec.decode_request_in_steps(key, version, damaged, 1 << 20))
        else:
            _, written = steps_of(codec.encode_response_in_steps(key, version, message))
            assert written == body


@pytest.mark.parametrize("direction", ["Request", "Response"])
@pytest.mark.parametrize("key", [38, 39, 40, 41])
def test_the_oldest_bytes_about_tokens_are_those_of_the_version_after(
    key: int, direction: str
) -> None:
    message = random_message(key, 1, direction, random.Random(key))
    assert encode(key, 0, direction, message) == encode(key, 1, direction, message)
