"""librdkafka producing to a server that reads the records and drops them.

Beside `produce-1000-1-*` it says how little a server can do. It is no upper bound: it reads so
eagerly that the client sends in smaller pieces, which costs the client more.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping

from bytes import DEFAULT, PARTITIONS, SMALL, fill
from measure import Case, Figures, Meter

from klamm.protocol import codec, produce
from klamm.protocol.apis import APIS, ApiKey
from klamm.protocol.frames import RequestHeader, encode_response_frame, parse_request_header
from klamm.protocol.messages import api_versions, metadata

_FRAME_MAX = 8 << 20
_MB = 1_000_000


class _Sink:
    """One broker that leads everything and keeps nothing."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def serve(self) -> None:
        while True:
            peer, _ = self._listener.accept()
            threading.Thread(target=self._talk, args=(peer,), daemon=True).start()

    def _talk(self, peer: socket.socket) -> None:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        buffer = memoryview(bytearray(_FRAME_MAX))
        while _receive(peer, buffer[:4]):
            (size,) = struct.unpack_from(">i", buffer)
            if not _receive(peer, buffer[:size]):
                return
            header = parse_request_header(buffer[:size])
            body = self._answer(header, buffer[header.body_offset : size])
            peer.sendall(encode_response_frame(header, body))

    def _answer(self, header: RequestHeader, body: memoryview) -> bytes:
        version = header.api_version
        if header.api_key == ApiKey.PRODUCE:
            request = produce.parse_request(version, body)
            topics = [
                produce.TopicResult(name, [produce.PartitionResult(at, 0, 0) for at, _ in parts])
                for name, parts in request.topics
            ]
            return produce.encode_response(version, produce.ProduceResponse(topics))
        if header.api_key == ApiKey.API_VERSIONS:
            offered = (ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.API_VERSIONS)
            keys = [
                api_versions.ApiVersion(key, APIS[key].served.low, APIS[key].served.high)
                for key in offered
            ]
            return codec.encode_response(
                ApiKey.API_VERSIONS, version, api_versions.Response(api_keys=keys)
            )
        assert header.api_key == ApiKey.METADATA, header
        partitions = [
            metadata.MetadataResponsePartition(0, at, 0, 0, [0], [0], [])
            for at in range(PARTITIONS)
        ]
        response = metadata.Response(
            brokers=[metadata.MetadataResponseBroker(0, "127.0.0.1", self.port)],
            controller_id=0,
            topics=[metadata.MetadataResponseTopic(name="load", partitions=partitions)],
        )
        return codec.encode_response(ApiKey.METADATA, version, response)


def _receive(peer: socket.socket, into: memoryview) -> bool:
    at = 0
    while at < len(into):
        count = peer.recv_into(into[at:])
        if not count:
            return False
        at += count
    return True


def to_nowhere(megabytes: int, batching: Mapping[str, object]) -> Figures:
    server = subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        with Meter(server.pid) as meter:
            fill(f"127.0.0.1:{port}", megabytes * _MB, 1000, "1", batching)
        return meter.rates(megabytes * _MB)
    finally:
        server.kill()
        server.wait()
        if server.stdout is not None:
            server.stdout.close()


CASES = (
    Case(
        "sink-default", "1000 B to nowhere, default batches", lambda: to_nowhere(500, {**DEFAULT})
    ),
    Case("sink-16k", "1000 B to nowhere, 16k batches", lambda: to_nowhere(100, {**SMALL})),
)

if __name__ == "__main__":
    sink = _Sink()
    print(sink.port, flush=True)
    sink.serve()
