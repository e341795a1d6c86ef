"""What an open connection costs: memory of the broker for two thousand of them.

Each has asked for the versions and for the metadata once, as every client does, and is quiet then.
"""

from __future__ import annotations

import resource
import socket
import struct
from contextlib import ExitStack

from measure import Case, Figures, Meter, cluster, resident_mb

from klamm.protocol import codec
from klamm.protocol.apis import ApiKey
from klamm.protocol.frames import encode_request_frame
from klamm.protocol.messages import api_versions, metadata

CONNECTIONS = 2_000
_VERSIONS = 3
_METADATA = 12
_KB_PER_MB = 1024


def memory(count: int = CONNECTIONS) -> Figures:
    """Kilobytes a connection, and what serving all their first requests took."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with cluster(brokers=1) as running, ExitStack() as open_ones:
        host, port = running.bootstrap.split(":")
        greet(open_ones.enter_context(socket.create_connection((host, int(port)))))
        before = resident_mb(running.pid)
        with Meter(running.pid) as meter:
            for _ in range(count):
                greet(open_ones.enter_context(socket.create_connection((host, int(port)))))
        after = resident_mb(running.pid)
        return {
            "connections": float(count),
            "kb_per_connection": (after - before) * _KB_PER_MB / count,
            "broker_cpu_us_each": meter.cpu / count * 1e6,
        }


def greet(peer: socket.socket) -> None:
    """What every client does first."""
    for key, version, request in (
        (ApiKey.API_VERSIONS, _VERSIONS, api_versions.Request("bench", "1")),
        (ApiKey.METADATA, _METADATA, metadata.Request(topics=[])),
    ):
        body = codec.encode_request(key, version, request)
        peer.sendall(encode_request_frame(key, version, 1, "bench", body))
        (size,) = struct.unpack(">i", _exactly(peer, 4))
        _exactly(peer, size)


def _exactly(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = peer.recv(size - len(data))
        assert more, "the broker has closed the connection"
        data += more
    return data


CASES = (Case("connections", f"{CONNECTIONS} open connections to one broker", memory),)
