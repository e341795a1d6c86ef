"""A blocking socket that says exactly what it is told to, well-formed or not."""

from __future__ import annotations

import socket
import struct
import time
from contextlib import suppress
from typing import Any, NamedTuple, Self

from klamm.protocol import codec, private
from klamm.protocol.apis import ApiKey
from klamm.protocol.frames import encode_request_frame, parse_response_header
from klamm.protocol.messages import create_topics, metadata

PATIENCE_S = 60.0
CLIENT_ID = "hostile"


class Address(NamedTuple):
    """Where one broker listens."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        host, _, port = text.rpartition(":")
        return cls(host, int(port))


class Closed(Exception):
    """The broker hung up instead of answering."""


class Raw:
    """One connection. Frames go out as they are; answers come back as bytes."""

    def __init__(self, address: Address, *, patience_s: float = PATIENCE_S) -> None:
        self.socket = socket.create_connection(address, patience_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError as fault:
            raise Closed(str(fault)) from fault

    def receive(self) -> bytes:
        """The next frame."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        got = bytearray()
        while len(got) < size:
            try:
                more = self.socket.recv(min(size - len(got), 1 << 20))
            except TimeoutError:
                raise
            except OSError as fault:
                raise Closed(str(fault)) from fault
            if not more:
                raise Closed("the broker closed the connection")
            got += more
        return bytes(got)

    def exchange(self, key: int, version: int, body: bytes, *, client_id: str = CLIENT_ID) -> bytes:
        """The body of the answer to this body."""
        self.send(encode_request_frame(key, version, 7, client_id, body))
        answer = self.receive()
        _, at = parse_response_header(key, version, answer)
        return answer[at:]

    def ask(self, key: int, version: int, request: Any, *, client_id: str = CLIENT_ID) -> Any:
        """The answer to a message, as a message."""
        body = codec.encode_request(key, version, request)
        answer = self.exchange(key, version, body, client_id=client_id)
        return codec.decode_response(key, version, answer)

    def ask_private(self, key: int, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to a private request."""
        return private.decode(self.exchange(key, private.VERSION, private.encode(body)))


def ask(address: Address, key: int, version: int, request: Any, **kw: Any) -> Any:
    """The answer to one message on a connection of its own."""
    with Raw(address) as raw:
        return raw.ask(key, version, request, **kw)


def said(address: Address, frame: bytes, *, patience_s: float = PATIENCE_S) -> bytes | None:
    """What is answered to these bytes; None when the broker hangs up or never does."""
    with Raw(address, patience_s=patience_s) as raw, suppress(Closed, TimeoutError):
        raw.send(frame)
        return raw.receive()
    return None


def describe(address: Address, *topics: str) -> metadata.Response:
    """What a broker tells its clients about topics, or about all of them."""
    wanted = [metadata.MetadataRequestTopic(name=t) for t in topics] if topics else None
    request = metadata.Request(topics=wanted, allow_auto_topic_creation=False)
    answer: metadata.Response = ask(address, ApiKey.METADATA, 9, request)
    return answer


def controller_of(address: Address) -> Address:
    """Where the controller listens; waits a little for there to be one."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        told = describe(address)
        for broker in told.brokers:
            if broker.node_id == told.controller_id:
                return Address(broker.host, broker.port)
        time.sleep(0.02)
    raise AssertionError("nobody knows the controller")


def leader_of(address: Address, topic: str, partition: int = 0) -> Address:
    """Where a partition is led; waits a little for a new topic to get there."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        told = describe(address, topic)
        brokers = {b.node_id: Address(b.host, b.port) for b in told.brokers}
        for entry in told.topics[0].partitions:
            if entry.partition_index == partition and entry.leader_id in brokers:
                return brokers[entry.leader_id]
        time.sleep(0.02)
    raise AssertionError(f"{topic}-{partition} has no leader")


def create(
    address: Address,
    name: str,
    partitions: int = 1,
    replication_factor: int = 1,
    configs: dict[str, str] | None = None,
) -> int:
    """The code that answers the creation of a topic."""
    topic = create_topics.CreatableTopic(
        name,
        partitions,
        replication_factor,
        configs=[create_topics.CreatableTopicConfig(k, v) for k, v in (configs or {}).items()],
    )
    request = create_topics.Request([topic], timeout_ms=30_000)
    answer = ask(controller_of(address), ApiKey.CREATE_TOPICS, 5, request)
    return int(answer.topics[0].error_code)
