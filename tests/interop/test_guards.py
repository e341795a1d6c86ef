"""Guarded listeners at the wire: TLS, certificates, SASL step by step."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import ssl
import struct
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from guarded import OAUTH_MODULE, PLAIN_MODULE, SCRAM_MODULE, Authority, Issued, Raw, Stopwatch
from klamm import Cluster
from klamm.client.aio.connection import Connection
from klamm.client.errors import Distrusted
from klamm.client.security import Security
from klamm.model.errors import ErrorCode
from klamm.model.scram import ScramMechanism
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import (
    api_versions,
    heartbeat,
    metadata,
    sasl_authenticate,
    sasl_handshake,
)
from klamm.security.credentials.scram import encode_credential, from_password
from klamm.store import layout
from klamm.store.layout import ConfigEntity, ConfigKind
from klamm.store.port import Create, SetData

pytestmark = pytest.mark.interop

HANDSHAKE, AUTHENTICATE = ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE
USERS = (
    f'{PLAIN_MODULE} required username="admin" password="adm" user_admin="adm" user_alice="wo,=ñ";'
)
VERSIONS = api_versions.Request("test", "1")
ALL = metadata.Request(topics=[])


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Issued:
    return authority.issue("broker")


@pytest.fixture(scope="module")
def settings(authority: Authority, broker: Issued) -> dict[str, str]:
    names = {
        "INTERNAL": "SASL_SSL",
        "SSL": "SSL",
        "MUTUAL": "SSL",
        "CLEAR": "SASL_PLAINTEXT",
        "SEALED": "SASL_SSL",
        "SHORT": "SASL_PLAINTEXT",
        "PLAINTEXT": "PLAINTEXT",
    }
    given = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in names),
        "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in names.items()),
        "inter.broker.listener.name": "INTERNAL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.internal.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.ssl.ssl.client.auth": "requested",
        "listener.name.mutual.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=nobody,.*$//,RULE:^.*CN=([a-z]+),.*$/$1/U",
        "klamm.allow.unsecured.oauth": "true",
        "listener.name.short.connections.max.reauth.ms": "300",
        "delegation.token.secret.key": "shared",
        **authority.settings(broker),
    }
    for listener in ("internal", "clear", "sealed", "short"):
        prefix = f"listener.name.{listener}"
        given[f"{prefix}.plain.sasl.jaas.config"] = USERS
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            given[f"{prefix}.{mechanism}.sasl.jaas.config"] = f"{SCRAM_MODULE} required;"
        given[f"{prefix}.oauthbearer.sasl.jaas.config"] = f"{OAUTH_MODULE} required;"
    return given


@pytest.fixture(scope="module")
def cluster(settings: dict[str, str]) -> Iterator[Cluster]:
    # Tokens are switched on for logins; who makes them is another matter.
    given = {name: text for name, text in settings.items() if not name.startswith("delegation.")}
    given["auto.create.topics.enable"] = "false"
    with Cluster(2, settings=given) as running:
        running.create_topic("T", 2, 2)
        running.wait_for_isr("T")
        yield running


def connected(cluster: Cluster, listener: str) -> Raw:
    return Raw(cluster.bootstrap_on(listener))


def principals(cluster: Cluster, listener: str) -> set[str]:
    brokers = cluster._app.brokers.values()
    return {c.principal for b in brokers for c in b.listeners.connections if c.listener == listener}


async def _seen_by(servers: str, security: Security) -> int:
    host, _, port = servers.partition(",")[0].rpartition(":")
    connection = await Connection.open(host, int(port), security=security, negotiates=True)
    try:
        answer = await connection.request(ApiKey.METADATA, 9, ALL)
        return len(answer.brokers)
    finally:
        await connection.close()


def seen_by(cluster: Cluster, listener: str, **security: object) -> int:
    """How many brokers a client sees that comes with this."""
    with_these = replace(Security(), **security)  # type: ignore[arg-type]
    return asyncio.run(_seen_by(cluster.bootstrap_on(listener), with_these))


# TLS


def test_brokers_log_in_to_each_other_and_replicate(cluster: Cluster) -> None:
    deadline = time.monotonic() + 30  # one of them may be logging in just now
    while principals(cluster, "INTERNAL") != {"User:admin"}:
        assert time.monotonic() < deadline, principals(cluster, "INTERNAL")
        time.sleep(0.05)
    for broker in cluster._app.brokers.values():
        assert any(c.is_broker for c in broker.listeners.connections)
    cluster.restart_broker(1)
    cluster.wait_for_isr("T", size=2)


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_a_certificate_names_the_principal(
    cluster: Cluster, authority: Authority, version: str
) -> None:
    carol = authority.issue("carol")
    for listener in ("SSL", "MUTUAL"):
        tls = authority.client_tls(carol, version)
        with Raw(cluster.bootstrap_on(listener), tls) as raw:
            assert raw.ask(ApiKey.METADATA, 9, ALL).brokers
            assert principals(cluster, listener) == {"User:CAROL"}


def test_who_may_show_none_is_anonymous_and_who_must_is_refused(
    cluster: Cluster, authority: Authority
) -> None:
    with Raw(cluster.bootstrap_on("SSL"), authority.client_tls()) as raw:
        assert raw.ask(ApiKey.METADATA, 9, ALL).brokers
        assert "User:ANONYMOUS" in principals(cluster, "SSL")
    for version in ("TLSv1_2", "TLSv1_3"):
        with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):  # noqa: SIM117
            with Raw(cluster.bootstrap_on("MUTUAL"), authority.client_tls(None, version)) as raw:
                raw.ask(ApiKey.METADATA, 9, ALL)


def test_an_untrusted_or_expired_certificate_is_refused_even_where_none_is_needed(
    cluster: Cluster, authority: Authority, tmp_path: Path
) -> None:
    import datetime

    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    strangers = [Authority(tmp_path).issue("mallory"), authority.issue("late", not_after=past)]
    for stranger in strangers:
        with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):  # noqa: SIM117
            with Raw(cluster.bootstrap_on("SSL"), authority.client_tls(stranger)) as raw:
                raw.ask(ApiKey.METADATA, 9, ALL)


def test_a_name_that_no_rule_fits_or_that_rules_erase_is_refused(
    cluster: Cluster, authority: Authority
) -> None:
    for name in ("nobody", "UPPER1"):
        tls = authority.client_tls(authority.issue(name))
        with pytest.raises((EOFError, ConnectionError, ssl.SSLError)):  # noqa: SIM117
            with Raw(cluster.bootstrap_on("SSL"), tls) as raw:
                raw.ask(ApiKey.METADATA, 9, ALL)


def test_a_plain_client_on_a_tls_port_is_closed_and_told_of_once(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            with connected(cluster, "SSL") as raw:
                raw.tell(ApiKey.METADATA, 9, ALL)
                while raw.socket.recv(100):
                    pass  # an alert, perhaps
    told = [r for r in caplog.records if "SSL handshake failed" in r.getMessage()]
    assert len(told) <= 1
    assert all("speaks no TLS" in str(r.__dict__["why"]) for r in told)
    counts: Counter[tuple[str, str]] = Counter()
    for broker in cluster._app.brokers.values():
        counts += broker.parts.seat.identity.counts.by_outcome
    assert counts["SSL", "failed"] >= 5


def test_a_tls_client_on_other_ports_is_closed(cluster: Cluster, authority: Authority) -> None:
    for listener in ("PLAINTEXT", "CLEAR"):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            Raw(cluster.bootstrap_on(listener), authority.client_tls())


def test_large_answers_go_over_tls_whole(cluster: Cluster, authority: Authority) -> None:
    """A Fetch of some megabytes, which is sent in pieces and not by sendfile."""
    from confluent_kafka import Consumer, Producer

    tls = {"security.protocol": "SSL", "ssl.ca.location": str(authority.trusted)}
    servers = {"bootstrap.servers": cluster.bootstrap_on("SSL")}
    cluster.create_topic("large", 1, 2)
    producer = Producer(servers | tls | {"acks": "all", "linger.ms": 50})
    values = [bytes([i]) * 200_000 for i in range(40)]
    for value in values:
        producer.produce("large", value)
    assert producer.flush(20) == 0
    consumer = Consumer(
        servers
        | tls
        | {"group.id": "g", "auto.offset.reset": "earliest", "fetch.max.bytes": 50_000_000}
        | {"max.partition.fetch.bytes": 20_000_000}
    )
    consumer.subscribe(["large"])
    read: list[bytes] = []
    while len(read) < len(values):
        message = consumer.poll(10)
        assert message is not None
        assert message.error() is None
        value = message.value()
        assert value is not None
        read.append(value)
    consumer.close()
    assert read == values


# SASL, step by step


def test_only_one_good_api_versions_comes_before_the_handshake(cluster: Cluster) -> None:
    with connected(cluster, "CLEAR") as raw:
        raw.tell_token(struct.pack(">hhi", ApiKey.API_VERSIONS, 99, 7) + bytes(6))
        assert raw.hear(ApiKey.API_VERSIONS, 0).error_code == ErrorCode.UNSUPPORTED_VERSION
        bad = api_versions.Request("-", "?")
        assert raw.ask(ApiKey.API_VERSIONS, 3, bad).error_code == ErrorCode.INVALID_REQUEST
        assert raw.ask(ApiKey.API_VERSIONS, 3, VERSIONS).error_code == 0
        raw.tell(ApiKey.API_VERSIONS, 3, VERSIONS)
        assert raw.is_closed()


def test_nothing_is_asked_before_the_login(cluster: Cluster) -> None:
    with connected(cluster, "CLEAR") as raw:
        watch = Stopwatch()
        raw.tell(ApiKey.METADATA, 9, ALL)
        assert raw.is_closed()
        assert watch.s >= 0.1
    with connected(cluster, "CLEAR") as raw:
        assert raw.ask(HANDSHAKE, 1, sasl_handshake.Request("PLAIN")).error_code == 0
        answer = raw.ask(ApiKey.HEARTBEAT, 0, heartbeat.Request(group_id="g"))
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert raw.is_closed()
    with connected(cluster, "CLEAR") as raw:
        raw.tell(AUTHENTICATE, 1, sasl_authenticate.Request(b"x"))
        assert raw.is_closed()


def test_another_mechanism_is_answered_with_those_there_are(cluster: Cluster) -> None:
    with connected(cluster, "CLEAR") as raw:
        watch = Stopwatch()
        answer = raw.ask(HANDSHAKE, 1, sasl_handshake.Request("GSSAPI"))
        assert watch.s >= 0.1
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert "SCRAM-SHA-512" in answer.mechanisms
        assert raw.is_closed()


def test_bare_tokens_after_the_oldest_handshake(cluster: Cluster) -> None:
    with connected(cluster, "CLEAR") as raw:
        assert raw.ask(HANDSHAKE, 0, sasl_handshake.Request("PLAIN")).error_code == 0
        raw.tell_token("\0alice\0wo,=ñ".encode())
        assert raw.hear_frame() == b""
        assert raw.ask(ApiKey.METADATA, 9, ALL).brokers
        assert "User:alice" in principals(cluster, "CLEAR")
    with connected(cluster, "CLEAR") as raw:
        raw.ask(HANDSHAKE, 0, sasl_handshake.Request("PLAIN"))
        raw.tell_token(b"\0alice\0wrong")
        assert raw.is_closed()


def test_a_frame_too_long_before_the_login_is_closed(cluster: Cluster) -> None:
    for size in (524_289, 2**31 - 1):
        with connected(cluster, "CLEAR") as raw:
            raw.socket.sendall(size.to_bytes(4, "big") + b"\0\x11\0\0")
            assert raw.is_closed()


def test_wrong_passwords_are_answered_late_and_later(cluster: Cluster) -> None:
    took = []
    for token, text in (
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0wrong", "Authentication failed: Invalid username or password"),
        (b"admin\0alice\0" + "wo,=ñ".encode(), "Client requested an authorization id"),
    ):
        with connected(cluster, "CLEAR") as raw:
            raw.ask(HANDSHAKE, 1, sasl_handshake.Request("PLAIN"))
            watch = Stopwatch()
            answer = raw.ask(AUTHENTICATE, 2, sasl_authenticate.Request(token))
            took.append(watch.s)
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert text in answer.error_message
            assert raw.is_closed()
    assert took[0] >= 0.1
    assert took[2] >= 2 * took[0] - 0.05
    assert seen_by(cluster, "CLEAR", **plain()) == 2, "who logs in is forgiven"


def plain(protocol: str = "SASL_PLAINTEXT", **more: object) -> dict[str, object]:
    login = {"username": "alice", "password": "wo,=ñ"}
    return {"protocol": protocol, "mechanism": "PLAIN", **login, **more}


def test_on_listeners_without_sasl_nobody_logs_in(cluster: Cluster) -> None:
    with connected(cluster, "PLAINTEXT") as raw:
        answer = raw.ask(HANDSHAKE, 1, sasl_handshake.Request("PLAIN"))
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        answer = raw.ask(AUTHENTICATE, 2, sasl_authenticate.Request(b"x"))
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert raw.ask(ApiKey.METADATA, 9, ALL).brokers


def test_a_login_without_an_end_is_not_repeated(cluster: Cluster) -> None:
    with connected(cluster, "CLEAR") as raw:
        log_in(raw, "alice", "wo,=ñ")
        answer = raw.ask(HANDSHAKE, 1, sasl_handshake.Request("PLAIN"))
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert raw.ask(ApiKey.METADATA, 9, ALL).brokers


def log_in(raw: Raw, user: str, password: str) -> int:
    """Log in by PLAIN; how long that holds, in ms."""
    assert raw.ask(HANDSHAKE, 1, sasl_handshake.Request("PLAIN")).error_code == 0
    token = f"\0{user}\0{password}".encode()
    answer = raw.ask(AUTHENTICATE, 2, sasl_authenticate.Request(token))
    assert answer.error_code == 0, answer.error_message
    lifetime: int = answer.session_lifetime_ms
    return lifetime


def test_a_session_that_ends_is_cut_without_a_word(cluster: Cluster) -> None:
    with connected(cluster, "SHORT") as raw:
        assert log_in(raw, "alice", "wo,=ñ") == 300
        assert raw.ask(ApiKey.METADATA, 9, ALL).brokers
        time.sleep(0.35)
        raw.tell(ApiKey.METADATA, 9, ALL)
        assert raw.is_closed()
    with connected(cluster, "SHORT") as raw:
        log_in(raw, "alice", "wo,=ñ")
        watch = Stopwatch()
        assert raw.is_closed(), "also one that asks nothing more"
        assert watch.s < 5


def test_a_login_is_repeated_as_the_same_and_as_nobody_else(cluster: Cluster) -> None:
    with connected(cluster, "SHORT") as raw:
        log_in(raw, "alice", "wo,=ñ")
        answer = raw.ask(HANDSHAKE, 1, sasl_handshake.Request("PLAIN"))
        assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE, "too soon"
        time.sleep(1.05)
        log_in(raw, "alice", "wo,=ñ")
        assert raw.ask(ApiKey.METADATA, 9, ALL).brokers
        time.sleep(1.05)
        raw.ask(HANDSHAKE, 1, sasl_handshake.Request("PLAIN"))
        answer = raw.ask(AUTHENTICATE, 2, sasl_authenticate.Request(b"\0admin\0adm"))
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "Cannot change principals during re-authentication" in answer.error_message
        assert raw.is_closed()


def test_klamms_own_client_renews_its_login(cluster: Cluster) -> None:
    async def run() -> None:
        host, _, port = cluster.bootstrap_on("SHORT").partition(",")[0].rpartition(":")
        security = replace(Security(), **plain())  # type: ignore[arg-type]
        connection = await Connection.open(host, int(port), security=security)
        await asyncio.sleep(1.05)
        # The session has ended meanwhile; the next request renews it first.
        assert (await connection.request(ApiKey.METADATA, 9, ALL)).brokers
        await connection.close()

    asyncio.run(run())


# Mechanisms


@pytest.fixture(scope="module")
def scram_users(cluster: Cluster) -> None:
    give(cluster, "sc,r=am", "pä:ss")


def give(cluster: Cluster, user: str, password: str | None) -> None:
    """Write a user's SCRAM credentials into the store, as Kafka's own tool does."""
    texts = {
        m.value: encode_credential(from_password(m, password, b"salt", 4096))
        for m in (ScramMechanism if password is not None else ())
    }
    entity = ConfigEntity(ConfigKind.USER, user)

    async def write() -> None:
        session = await cluster._app.store.connect()
        data = layout.encode_config(texts)
        (made,) = await session.multi([Create(entity.path, data)])
        if not made.ok:
            await session.multi([SetData(entity.path, data)])
        change = layout.encode_config_change(entity)
        await session.multi([Create(layout.CONFIG_CHANGE_PREFIX, change, sequential=True)])
        await session.close()
        for broker in cluster._app.brokers.values():
            await broker.parts.dynamic_config.caught_up()

    cluster._run(write())


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("listener", ["CLEAR", "SEALED"])
def test_scram_by_credentials_in_the_store(
    cluster: Cluster, scram_users: None, authority: Authority, listener: str, mechanism: str
) -> None:
    protocol = "SASL_SSL" if listener == "SEALED" else "SASL_PLAINTEXT"
    login = {"protocol": protocol, "mechanism": mechanism, "trusted": str(authority.trusted)}
    assert seen_by(cluster, listener, username="sc,r=am", password="pä:ss", **login) == 2
    said = []
    for user in ("sc,r=am", "nobody"):
        with pytest.raises(Distrusted) as refused:
            seen_by(cluster, listener, username=user, password="wrong", **login)
        said.append(str(refused.value).partition("refused")[2])
    assert said[0] == said[1], "nobody learns whether a user exists"
    assert "invalid credentials with SASL mechanism" in said[0]


def test_a_users_credentials_change_while_brokers_run(cluster: Cluster) -> None:
    login = {"protocol": "SASL_PLAINTEXT", "mechanism": "SCRAM-SHA-256", "username": "dave"}
    with pytest.raises(Distrusted):
        seen_by(cluster, "CLEAR", password="one", **login)
    give(cluster, "dave", "one")
    assert seen_by(cluster, "CLEAR", password="one", **login) == 2
    give(cluster, "dave", "two")
    with pytest.raises(Distrusted):
        seen_by(cluster, "CLEAR", password="one", **login)
    assert seen_by(cluster, "CLEAR", password="two", **login) == 2
    give(cluster, "dave", None)
    with pytest.raises(Distrusted):
        seen_by(cluster, "CLEAR", password="two", **login)


def token(**claims: object) -> str:
    def part(fields: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part(claims)}."


def test_oauthbearer_says_how_long_a_token_holds(cluster: Cluster) -> None:
    with connected(cluster, "CLEAR") as raw:
        raw.ask(HANDSHAKE, 1, sasl_handshake.Request("OAUTHBEARER"))
        shown = token(sub="erin", exp=time.time() + 60)
        message = f"n,,\x01auth=Bearer {shown}\x01\x01".encode()
        answer = raw.ask(AUTHENTICATE, 2, sasl_authenticate.Request(message))
        assert answer.error_code == 0
        assert 55_000 < answer.session_lifetime_ms <= 60_000
        assert "User:erin" in principals(cluster, "CLEAR")


def test_a_bad_token_is_refused_in_two_steps(cluster: Cluster) -> None:
    with connected(cluster, "CLEAR") as raw:
        raw.ask(HANDSHAKE, 1, sasl_handshake.Request("OAUTHBEARER"))
        shown = token(sub="erin", exp=time.time() - 60)
        message = f"n,,\x01auth=Bearer {shown}\x01\x01".encode()
        answer = raw.ask(AUTHENTICATE, 2, sasl_authenticate.Request(message))
        assert answer.error_code == 0
        assert json.loads(answer.auth_bytes)["status"] == "invalid_token"
        answer = raw.ask(AUTHENTICATE, 2, sasl_authenticate.Request(b"\x01"))
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert raw.is_closed()


# Strangers


def test_who_does_not_log_in_has_to_leave(settings: dict[str, str]) -> None:
    given = {n: t for n, t in settings.items() if not n.startswith("delegation.")}
    given |= {
        "klamm.authentication.timeout.ms": "300",
        "klamm.authentication.pending.max.per.ip": "3",
    }
    with Cluster(1, settings=given) as cluster:
        with connected(cluster, "CLEAR") as raw, connected(cluster, "SSL") as silent:
            watch = Stopwatch()
            assert raw.is_closed()
            assert silent.is_closed()
            assert 0.2 < watch.s < 5
        with connected(cluster, "CLEAR") as known:
            log_in(known, "alice", "wo,=ñ")
            crowd = [connected(cluster, "CLEAR") for _ in range(4)]
            assert crowd[0].is_closed(), "the oldest stranger goes"
            assert known.ask(ApiKey.METADATA, 9, ALL).brokers, "who has logged in stays"
            for one in crowd:
                one.socket.close()
