"""Who used which API in which version: the last column of `docs/reference/protocol-support.md`.

    KLAMM_RECORD_CLIENTS=1 python -m pytest tests/interop tests/spark
    KLAMM_RECORD_CLIENTS=1 make interop-extra
    python tools/generate_protocol_support.py

Clusters that run in the tests' own process are listened to, at the place where a broker has read a
request's header. What earlier runs wrote down stays; delete the file to begin anew.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path

from klamm.broker.net.peer import Peer
from klamm.broker.net.replies import Reply
from klamm.broker.router import Router
from klamm.protocol.apis import APIS, ApiKey
from klamm.protocol.codec import decode_request
from klamm.protocol.frames import RequestHeader, parse_request_header

SEEN = Path(__file__).parent.parent.parent / "docs/reference/protocol-clients.json"
_SOFTWARE = {
    "apache-kafka-java": "Java",
    "confluent-kafka-python": "confluent-kafka",
    "kafka-python": "kafka-python",
    "kgo": "franz-go",
    "klamm": "klamm",
    "librdkafka": "librdkafka",
    "sarama": "sarama",
}
# These ask for an ApiVersions that has no room for a name, or give that of their library.
_BY_CLIENT_ID = ("aiokafka", "kafkajs", "kcat")


def _client(peer: Peer, header: RequestHeader, frame: memoryview) -> str | None:
    """The client's name; one too old to say it is known by its client id."""
    for name in _BY_CLIENT_ID:
        if (header.client_id or "").startswith(name):
            return name
    if header.api_key == ApiKey.API_VERSIONS and header.api_version in (3, 4):
        body = frame[header.body_offset :]
        request = decode_request(header.api_key, header.api_version, body)
        return _SOFTWARE.get(request.client_software_name)
    return _SOFTWARE.get(peer.software)


@contextmanager
def recording() -> Iterator[None]:
    seen: set[tuple[str, str, int]] = set()
    route = Router.route

    def listening(self: Router, peer: Peer, frame: memoryview) -> Reply | Awaitable[Reply]:
        header = parse_request_header(frame)
        client = _client(peer, header, frame)
        if client is not None and header.api_key in APIS:
            seen.add((APIS[header.api_key].title, client, header.api_version))
        return route(self, peer, frame)

    Router.route = listening  # type: ignore[method-assign]
    try:
        yield
    finally:
        Router.route = route  # type: ignore[method-assign]
        _write(seen)


def _write(seen: set[tuple[str, str, int]]) -> None:
    known = json.loads(SEEN.read_text()) if SEEN.exists() else {}
    for api, client, version in seen:
        versions = known.setdefault(api, {}).setdefault(client, [])
        if version not in versions:
            versions.append(version)
    ordered = {
        api: {client: sorted(versions) for client, versions in sorted(clients.items())}
        for api, clients in sorted(known.items())
    }
    SEEN.write_text(json.dumps(ordered, indent=2) + "\n")
