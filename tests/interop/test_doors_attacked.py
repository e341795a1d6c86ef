"""A stranger, and a user without rights, at every kind of listener: nothing gives way.

Each attack is followed by the same look around: no fault in the log, nobody left standing at the
door, leaders and replicas as they were.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import socket
import ssl
import struct
from collections.abc import Callable, Iterator

import pytest

from guarded import OAUTH_MODULE, PLAIN_MODULE, SCRAM_MODULE, Authority, Issued, Raw
from klamm import Cluster
from klamm.model.errors import ErrorCode
from klamm.protocol.apis import ApiKey
from klamm.protocol.frames import encode_request_frame
from klamm.protocol.messages import (
    create_delegation_token,
    expire_delegation_token,
    metadata,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
)
from klamm.protocol.private import PrivateKey

pytestmark = pytest.mark.interop

HANDSHAKE, AUTHENTICATE = ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE
LISTENERS = {
    "INTERNAL": "SASL_SSL",
    "SSL": "SSL",
    "MUTUAL": "SSL",
    "CLEAR": "SASL_PLAINTEXT",
    "SEALED": "SASL_SSL",
    "PLAINTEXT": "PLAINTEXT",
}
USERS = f'{PLAIN_MODULE} required username="admin" password="adm" user_admin="adm" user_alice="al";'
DAY_MS = 86_400_000
LONGEST_MS = 7 * DAY_MS
REFUSALS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NOT_CONTROLLER,
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("attacked"))


@pytest.fixture(scope="module")
def alice(authority: Authority) -> Issued:
    return authority.issue("alice")


@pytest.fixture(scope="module")
def cluster(authority: Authority) -> Iterator[Cluster]:
    given = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
        "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in LISTENERS.items()),
        "inter.broker.listener.name": "INTERNAL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "listener.name.mutual.ssl.client.auth": "required",
        "klamm.allow.unsecured.oauth": "true",
        "delegation.token.secret.key": "shared",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin",
        "connection.failed.authentication.delay.ms": "0",
        **authority.settings(authority.issue("broker")),
    }
    for listener in ("internal", "clear", "sealed"):
        prefix = f"listener.name.{listener}"
        given[f"{prefix}.plain.sasl.jaas.config"] = USERS
        given[f"{prefix}.scram-sha-256.sasl.jaas.config"] = f"{SCRAM_MODULE} required;"
        given[f"{prefix}.oauthbearer.sasl.jaas.config"] = f"{OAUTH_MODULE} required;"
    with Cluster(2, settings=given) as running:
        running.create_topic("T", 2, 2)
        running.wait_for_isr("T")
        yield running


@pytest.fixture
def _holds(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever happens in a test, the cluster is as it was."""
    before = [cluster.partition("T", index) for index in range(2)]
    with caplog.at_level(logging.INFO):
        yield
    faults = [r for r in caplog.records if r.levelno >= logging.ERROR or r.exc_info]
    assert faults == []
    assert [cluster.partition("T", index) for index in range(2)] == before
    cluster.wait_for_isr("T")


def opened(cluster: Cluster, authority: Authority, alice: Issued, listener: str) -> Raw:
    shown = alice if listener == "MUTUAL" else None
    tls = authority.client_tls(shown) if "SSL" in LISTENERS[listener] else None
    return Raw(cluster.bootstrap_on(listener), tls)


def logged_in(raw: Raw, user: str = "alice", password: str = "al") -> Raw:
    raw.ask(HANDSHAKE, 1, sasl_handshake.Request("PLAIN"))
    token = f"\0{user}\0{password}".encode()
    assert raw.ask(AUTHENTICATE, 2, sasl_authenticate.Request(token)).error_code == 0
    return raw


def hello(authority: Authority) -> bytes:
    """The first words of a client of TLS."""
    outgoing = ssl.MemoryBIO()
    tls = authority.client_tls().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


NOISE: dict[str, Callable[[bytes], bytes]] = {
    "half a hello": lambda first: first[:60],
    "hello and garbage": lambda first: first + b"\x17\x03\x03\xff\xff" + os.urandom(9000),
    "a huge record": lambda _: b"\x16\x03\x01\xff\xff" + os.urandom(1000),
    "alerts": lambda _: b"\x15\x03\x01\x00\x02\x01\x00" * 5000,
    "changes of ciphers": lambda first: first + b"\x14\x03\x03\x00\x01\x01" * 4000,
    "a heartbeat": lambda _: b"\x18\x03\x02\x00\x03\x01\x40\x00",
    "negative": lambda _: b"\xff\xff\xff\xff" + b"x" * 10,
    "empty frames": lambda _: b"\0\0\0\0" * 1000,
    "2 GB": lambda _: b"\x7f\xff\xff\xff" + b"x" * 100,
    "chance": lambda _: os.urandom(100_000),
}


@pytest.mark.usefixtures("_holds")
@pytest.mark.parametrize("listener", LISTENERS)
def test_bytes_that_make_no_sense_end_the_connection(
    cluster: Cluster, authority: Authority, listener: str
) -> None:
    first = hello(authority)
    host, _, port = cluster.bootstrap_on(listener).partition(",")[0].rpartition(":")
    for make in NOISE.values():
        with socket.create_connection((host, int(port)), timeout=10) as peer:
            try:
                peer.sendall(make(first))
                peer.shutdown(socket.SHUT_WR)
                while peer.recv(65536):
                    pass
            except TimeoutError:
                raise  # it waits for more
            except OSError:
                pass  # it did not wait for the end: reset, broken pipe or no longer connected


def unsigned(claims: bytes) -> bytes:
    parts = (base64.urlsafe_b64encode(part).rstrip(b"=") for part in (b'{"alg":"none"}', claims))
    return b"n,,\x01auth=Bearer " + b".".join(parts) + b".\x01\x01"


TOKENS = {
    "PLAIN": [
        b"", b"\0", b"\0" * 500_000, b"\xff\0\xff\0\xff", b"\0alice\0al\0", b"admin\0alice\0al",
        b"\0 alice\0al", b"\0ALICE\0al", b"\0al\0ice\0al", b"a" * 500_000,
    ],
    "SCRAM-SHA-256": [
        b"n,,n=alice,r=" + b"x" * 400_000, b"n,,n=a=ZZ,r=x", b"y,,n=alice,r=x", b"n,," * 100_000,
        b"p=tls-unique,,n=alice,r=x", b"n,,n=alice,r=a," + b"x=y," * 100_000, b"n,,n=\xc3\xa9,r=x",
        b"n,,n=" + b"a" * 200_000 + b",r=x", b"n,,m=x,n=alice,r=a", b"n,,n=alice,r=\0",
    ],
    "OAUTHBEARER": [
        b"n,,\x01auth=Bearer " + b"x" * 200_000 + b"\x01\x01", b"\x01" * 1000,
        b"n,,\x01" + b"k=v\x01" * 50_000, b"n,,\x01auth=Bearer e30.e30.\x01\x01",
        unsigned(b'{"sub":"admin","exp":1e400}'), unsigned(b'{"sub":"admin","exp":NaN}'),
        unsigned(b"[" * 30_000), unsigned(b'{"sub":"admin","exp":' + b"9" * 5000 + b"}"),
    ],
}  # fmt: skip


@pytest.mark.usefixtures("_holds")
@pytest.mark.parametrize("mechanism", TOKENS)
@pytest.mark.parametrize("listener", ["CLEAR", "SEALED"])
def test_no_odd_token_lets_anybody_in(
    cluster: Cluster, authority: Authority, alice: Issued, listener: str, mechanism: str
) -> None:
    for token in TOKENS[mechanism]:
        for version in (0, 1):
            with opened(cluster, authority, alice, listener) as raw:
                raw.ask(HANDSHAKE, version, sasl_handshake.Request(mechanism))
                if version:
                    raw.tell(AUTHENTICATE, 2, sasl_authenticate.Request(token))
                else:
                    raw.tell_token(token)
                raw.tell(ApiKey.METADATA, 9, metadata.Request(topics=[]))
                heard = b""
                try:
                    while piece := raw.socket.recv(65536):
                        heard += piece
                except (ConnectionError, ssl.SSLError):
                    pass
                # Nobody hears more than that it is wrong: a list of brokers names their host.
                assert b"127.0.0.1" not in heard, (token[:40], heard)


def bodies() -> Iterator[bytes]:
    """Bodies of private requests that name what a thief would like to have."""
    wish = {
        "topic": "T", "topics": ["T"], "topic_id": "A" * 22, "partition": 0, "broker": 1,
        "names": ["T", "U"], "first": "T", "second": "U", "limit": 10**9, "log_start": 5,
        "location": "x", "principal": "User:admin", "client_id": "x", "host": "1.2.3.4",
    }  # fmt: skip
    for text in (b"", b"{}", json.dumps(wish).encode(), b"[" * 50_000):
        yield text
        yield struct.pack(">I", len(text)) + text


@pytest.mark.usefixtures("_holds")
@pytest.mark.parametrize("listener", ["INTERNAL", "CLEAR", "MUTUAL", "PLAINTEXT"])
def test_private_requests_give_nothing_to_who_has_no_right(
    cluster: Cluster, authority: Authority, alice: Issued, listener: str
) -> None:
    for key in PrivateKey:
        for body in bodies():
            with opened(cluster, authority, alice, listener) as raw:
                if "SASL" in LISTENERS[listener]:
                    logged_in(raw)
                raw.socket.sendall(encode_request_frame(int(key), 0, 7, "raw", body))
                try:
                    answer = json.loads(raw.hear_frame()[4:])
                except (EOFError, ConnectionError):
                    continue
            code = answer.pop("error_code")
            answer.pop("broker", None)
            is_empty = not any(answer.values())
            assert code in REFUSALS or (code == 0 and is_empty), (key, body[:40], code, answer)


@pytest.mark.usefixtures("_holds")
def test_tokens_with_odd_times_stay_within_their_bounds(
    cluster: Cluster, authority: Authority, alice: Issued
) -> None:
    lowest, highest = -(2**63), 2**63 - 1
    with logged_in(opened(cluster, authority, alice, "CLEAR")) as raw:
        for asked_ms in (lowest, -1, 0, highest):
            made = raw.ask(38, 3, create_delegation_token.Request(None, None, [], asked_ms))
            assert made.error_code == 0
            assert made.max_timestamp_ms - made.issue_timestamp_ms == LONGEST_MS
            assert made.expiry_timestamp_ms - made.issue_timestamp_ms == DAY_MS
        hmac = bytes(made.hmac)
        renewed = raw.ask(39, 2, renew_delegation_token.Request(hmac, highest))
        assert (renewed.error_code, renewed.expiry_timestamp_ms) == (0, made.max_timestamp_ms)
        longer = raw.ask(40, 2, expire_delegation_token.Request(hmac, highest))
        assert (longer.error_code, longer.expiry_timestamp_ms) == (0, made.max_timestamp_ms)
        assert raw.ask(40, 2, expire_delegation_token.Request(hmac, lowest)).error_code == 0
        for odd in (hmac, b"", os.urandom(100_000)):
            gone = raw.ask(39, 2, renew_delegation_token.Request(odd, 1))
            assert gone.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


@pytest.mark.usefixtures("_holds")
@pytest.mark.parametrize("listener", LISTENERS)
def test_client_ids_of_any_length_are_heard_or_refused(
    cluster: Cluster, authority: Authority, alice: Issued, listener: str
) -> None:
    for said, sent in ((32_767, 32_767), (-2, 10), (32_767, 10), (-1, 0)):
        with opened(cluster, authority, alice, listener) as raw:
            frame = struct.pack(">hhih", ApiKey.API_VERSIONS, 0, 1, said) + b"c" * sent
            raw.socket.sendall(struct.pack(">i", len(frame)) + frame)
            try:
                assert raw.hear_frame()[:4] == b"\0\0\0\1"
            except (EOFError, OSError):
                assert said != -1
