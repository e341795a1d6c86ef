"""Garbage on the port: the connection is closed or answered, and nobody else notices."""

from __future__ import annotations

import logging
import os
import random
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from interop.process import data_args, up
from klamm.cluster import Cluster
from klamm.model.errors import KlammError
from klamm.protocol import codec, fetch, frames, produce
from klamm.protocol.apis import APIS, ApiKey
from klamm.protocol.messages import api_versions, metadata
from wire.messages import random_message

Address = tuple[str, int]
PATIENCE_S = 10.0

# What only the controller and other brokers say: strangers are refused, mostly unread.
TRUSTED = {
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.ALTER_PARTITION,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.WRITE_TXN_MARKERS,
}
VERSIONS = [
    pytest.param(api.key, version, id=f"{api.title}-v{version}")
    for api in APIS.values()
    for version in sorted({api.served.low, api.flexible_from, api.served.high})
    if version in api.served
]

NOISE = {
    "empty": b"",
    "zero size": struct.pack(">i", 0),
    "negative size": struct.pack(">i", -1) + bytes(50),
    "too large": struct.pack(">i", frames.FRAME_SIZE_MAX + 1) + bytes(50),
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls": bytes.fromhex("16030100c8010000c40303") + bytes(range(190)),
    "unknown api": struct.pack(">ihhih", 10, 9999, 0, 1, -1),
    "negative api": struct.pack(">ihhih", 10, -5, 0, 1, -1),
    "unknown version": struct.pack(">ihhih", 10, ApiKey.METADATA, 99, 1, -1),
    "negative version": struct.pack(">ihhih", 10, ApiKey.METADATA, -3, 1, -1),
    "header cut": struct.pack(">ihh", 4, ApiKey.METADATA, 12),
    "client id longer than the frame": struct.pack(">ihhih", 10, ApiKey.METADATA, 1, 1, 30000),
    "client id is no text": struct.pack(">ihhih", 12, ApiKey.METADATA, 1, 1, 2) + b"\xff\xfe",
    "endless tags": struct.pack(">ihhih", 16, ApiKey.METADATA, 12, 1, -1) + b"\xff" * 6,
    "all ones": b"\x7f" + b"\xff" * 5000,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2, auto_create_topics_enable="false") as running:
        running.create_topic("steady", 3, 2)
        yield running


@pytest.fixture
def port(cluster: Cluster) -> Address:
    """The controller's: it believes more, so there is more to break."""
    controller = cluster.wait_for_controller()
    host, _, port = cluster.bootstrap_servers.split(",")[controller].rpartition(":")
    return host, int(port)


class Steady:
    """A well-behaved client that asks all the time, and stops at the first bad answer."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.answers = 0
        self.fault: BaseException | None = None

    def __enter__(self) -> Steady:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the broker does not answer others any more"
        assert self.fault is None, self.fault

    def _run(self) -> None:
        try:
            with socket.create_connection(self._address, PATIENCE_S) as client:
                while not (self._stop.is_set() and self.answers):
                    assert [t.error_code for t in _topics(client)] == [0]
                    self.answers += 1
                    self._stop.wait(0.005)
        except (OSError, AssertionError, KlammError) as fault:
            self.fault = fault


def _topics(client: socket.socket) -> list[metadata.MetadataResponseTopic]:
    topic = metadata.MetadataRequestTopic(name="steady")
    body = codec.encode_request(ApiKey.METADATA, 9, metadata.Request(topics=[topic]))
    client.sendall(frames.encode_request_frame(ApiKey.METADATA, 9, 5, "steady", body))
    answer = _read_frame(client)
    assert answer is not None, "the broker closed the connection of a client that did nothing wrong"
    _, at = frames.parse_response_header(ApiKey.METADATA, 9, answer)
    response: metadata.Response = codec.decode_response(ApiKey.METADATA, 9, answer[at:])
    return response.topics


def _read_frame(client: socket.socket) -> bytes | None:
    """The next frame, or None when the broker closes."""
    try:
        head = _read_exactly(client, 4)
        return None if head is None else _read_exactly(client, int.from_bytes(head, "big"))
    except ConnectionResetError:
        return None


def _read_exactly(client: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        more = client.recv(size - len(data))
        if not more:
            return None
        data += more
    return data


def _poke(address: Address, data: bytes) -> bytes | None:
    """Sends bytes and nothing after them: the answer, or None when the broker closes.

    A broker that would wait for ever for the rest of a frame sees the end of the stream instead.
    """
    with socket.create_connection(address, PATIENCE_S) as client:
        try:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
        except OSError:
            return None
        return _read_frame(client)


def _errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]


@pytest.mark.parametrize("data", NOISE.values(), ids=NOISE.keys())
def test_noise(port: Address, data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with Steady(port):
        assert _poke(port, data) is None
    assert _errors(caplog) == []


def test_random_bytes(port: Address, caplog: pytest.LogCaptureFixture) -> None:
    dice = random.Random(20)
    with Steady(port):
        for _ in range(150):
            _poke(port, dice.randbytes(dice.choice((1, 3, 4, 8, 60, 3000, 100_000))))
    assert _errors(caplog) == []


def test_a_frame_that_ends_early_at_any_place(
    port: Address, caplog: pytest.LogCaptureFixture
) -> None:
    body = codec.encode_request(3, 12, metadata.Request(topics=[]))
    whole = frames.encode_request_frame(3, 12, 1, "me", body)
    with Steady(port):
        for cut in range(len(whole)):
            assert _poke(port, whole[:cut]) is None
    assert _errors(caplog) == []


def test_api_versions_from_the_future_is_answered(port: Address) -> None:
    answer = _poke(port, struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, 77, 3, -1))
    assert answer is not None
    _, at = frames.parse_response_header(18, 0, answer)
    response: api_versions.Response = codec.decode_response(18, 0, answer[at:])
    assert response.error_code == 35
    assert [(a.api_key, a.min_version, a.max_version) for a in response.api_keys] == [(18, 0, 4)]


def _request(key: ApiKey, version: int, dice: random.Random) -> bytes:
    # Small numbers: a topic of two thousand million partitions is a wish, not garbage.
    message = random_message(key, version, "Request", dice, largest=50)
    if key == ApiKey.FETCH:
        message.max_wait_ms = 1
    return codec.encode_request(key, version, message)


def _send(port: Address, key: ApiKey, version: int, body: bytes) -> bytes | None:
    return _poke(port, frames.encode_request_frame(key, version, 9, "garbage", body))


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_bodies_that_are_cut_or_damaged(
    port: Address, key: ApiKey, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A body that is too short is no request; one with flipped bits may be one."""
    dice = random.Random(f"{key} {version}")
    with Steady(port):
        for _ in range(3):
            body = _request(key, version, dice)
            for _ in range(4):
                if body:
                    answer = _send(port, key, version, body[: dice.randrange(len(body))])
                    assert answer is None or key in TRUSTED
            damaged = bytearray(body)
            for _ in range(dice.randrange(1, 4)):
                if damaged:
                    damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(3)
            _send(port, key, version, bytes(damaged))
    assert _errors(caplog) == []


@pytest.mark.parametrize(("key", "version"), [v for v in VERSIONS if v.values[0] != ApiKey.PRODUCE])
def test_well_formed_nonsense_is_answered(
    port: Address, key: ApiKey, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    dice = random.Random(f"nonsense {key} {version}")
    with Steady(port):
        for _ in range(12):
            answer = _send(port, key, version, _request(key, version, dice))
            if answer is not None:
                at = frames.parse_response_header(key, version, answer)[1]
                codec.decode_response(key, version, answer[at:])
    assert _errors(caplog) == []


@pytest.mark.parametrize("version", [3, 7, 9, 11])
def test_records_that_are_none_are_refused_one_by_one(port: Address, version: int) -> None:
    """A partition with nonsense for records gets a code; its neighbours get theirs."""
    dice = random.Random(version)
    junk = [b"", b"x", dice.randbytes(60), dice.randbytes(61), dice.randbytes(5000)]
    for records in junk:
        parts = [produce.PartitionRecords(n, memoryview(records)) for n in range(3)]
        request = produce.ProduceRequest(
            None,
            -1,
            1000,
            [produce.TopicRecords("steady", parts), produce.TopicRecords("no", parts)],
        )
        body = b"".join(bytes(p) for p in produce.encode_request(version, request))
        answer = _send(port, ApiKey.PRODUCE, version, body)
        assert answer is not None
        at = frames.parse_response_header(ApiKey.PRODUCE, version, answer)[1]
        response = produce.parse_response(version, memoryview(answer)[at:])
        codes = [p.error_code for t in response.topics for p in t.partitions]
        assert len(codes) == 6
        assert 0 not in codes


def test_fetches_from_nowhere(port: Address, caplog: pytest.LogCaptureFixture) -> None:
    wanted = [
        fetch.FetchPartition(n, epoch, offset, -1, -1, size)
        for n in (-1, 0, 7, 2**31 - 1)
        for epoch in (-5, -1, 2**31 - 1)
        for offset in (-(2**63), -1, 0, 2**63 - 1)
        for size in (-(2**31), 0, 2**31 - 1)
    ]
    request = fetch.FetchRequest(
        max_wait_ms=1, topics=[fetch.FetchTopic("steady", fetch.ZERO_ID, wanted)]
    )
    answer = _send(port, ApiKey.FETCH, 12, fetch.encode_request(12, request))
    assert answer is not None
    at = frames.parse_response_header(ApiKey.FETCH, 12, answer)[1]
    response = fetch.parse_response(12, memoryview(answer)[at:])
    assert sum(len(t.partitions) for t in response.topics) == len(wanted)
    assert _errors(caplog) == []


def _resident_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1])


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="memory is read from /proc")
def test_memory_does_not_grow(tmp_path: Path) -> None:
    # It complains about every one of them, and nobody empties the pipe while it does.
    quietly = ("sh", "-c", 'exec "$@" 2>/dev/null', "sh")
    with up(*data_args(tmp_path, brokers=1), launcher=quietly) as running:
        host, _, number = running.bootstrap.rpartition(":")
        address = (host, int(number))
        dice = random.Random(1)

        def storm(connections: int) -> None:
            for at in range(connections):
                _poke(address, list(NOISE.values())[at % len(NOISE)])
                _poke(address, dice.randbytes(20_000))
                body = codec.encode_request(3, 12, random_message(3, 12, "Request", dice))
                frame = frames.encode_request_frame(3, 12, 1, "me", body)
                _poke(address, frame[: dice.randrange(len(frame))])

        storm(150)
        before = _resident_kb(running.process.pid)
        storm(600)
        after = _resident_kb(running.process.pid)
        assert after - before < 8_000, "every piece of garbage leaves something behind"

        # A hundred clients that each announce a hundred megabytes and send next to nothing.
        with ExitStack() as stack:
            for _ in range(100):
                client = stack.enter_context(socket.create_connection(address, PATIENCE_S))
                client.sendall(struct.pack(">i", frames.FRAME_SIZE_MAX) + bytes(100))
            with socket.create_connection(address, PATIENCE_S) as client:
                client.sendall(struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, 0, 3, -1))
                assert _read_frame(client) is not None
            waiting = _resident_kb(running.process.pid)
        assert waiting - after < 16_000, "a size that is only announced takes memory"
        assert running.stop() == 0
