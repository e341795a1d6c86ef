"""What a black box shows of a locked cluster, where no other test asks for it at the wire.

One cluster has every kind of listener, lists, users and tokens. Which check is shown by which test
is told in checks.txt beside this file.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from guarded import PLAIN_MODULE, SCRAM_MODULE, Authority, Raw, pkcs8
from klamm import Cluster
from klamm.client.aio import users
from klamm.client.aio.cluster import Client
from klamm.client.aio.connection import Connection
from klamm.client.errors import Distrusted
from klamm.client.security.settings import Security, security_of
from klamm.client.settings import of_properties
from klamm.model.errors import ErrorCode
from klamm.model.names import ZERO_ID
from klamm.model.scram import ScramMechanism, salted_password
from klamm.protocol.apis import ApiKey
from klamm.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.messages import (
    add_partitions_to_txn,
    alter_user_scram_credentials,
    api_versions,
    create_acls,
    create_delegation_token,
    expire_delegation_token,
    incremental_alter_configs,
    init_producer_id,
    leader_and_isr,
    metadata,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
)
from klamm.store import layout

pytestmark = pytest.mark.interop

HANDSHAKE, AUTHENTICATE = ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE
PASSWORDS = {"root": "r", "alice": "a", "bob": "b", "carol": "c"}
USERS = " ".join(f'user_{name}="{word}"' for name, word in PASSWORDS.items())
TOPIC, TXN, CLUSTER = 2, 5, 4
LITERAL, PREFIXED, DENY, ALLOW = 3, 4, 2, 3
ALL, READ, WRITE, CREATE, DESCRIBE = 2, 3, 4, 5, 8
NOTHING = metadata.Request(topics=[])
SESSION_MS = 1500
SOON_S = 5.0  # a change reaches other brokers within a second, where nobody else is busy


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


SIX = {"SIX": "PLAINTEXT"} if has_ipv6() else {}
needs_ipv6 = pytest.mark.skipif(not SIX, reason="this machine has no IPv6")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def cluster(authority: Authority) -> Iterator[Cluster]:
    names = {
        "INNER": "SASL_PLAINTEXT",
        "SHORT": "SASL_PLAINTEXT",
        "SSL": "SSL",
        "SEALED": "SASL_SSL",
        "LOCKED": "SASL_SSL",
        "PLAINTEXT": "PLAINTEXT",
    }
    given = {
        "listeners": ",".join(
            [*(f"{name}://127.0.0.1:0" for name in names), *(f"{name}://[::1]:0" for name in SIX)]
        ),
        "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in (names | SIX).items()),
        "inter.broker.listener.name": "INNER",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "connection.failed.authentication.delay.ms": "5",
        "listener.name.short.connections.max.reauth.ms": str(SESSION_MS),
        "ssl.client.auth": "required",
        "listener.name.locked.ssl.client.auth": "required",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:root",
        "delegation.token.secret.key": "shared",
        "password.encoder.secret": "hidden",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        **authority.settings(authority.issue("broker")),
    }
    for name in ("inner", "short", "sealed", "locked"):
        given[f"listener.name.{name}.plain.sasl.jaas.config"] = (
            f'{PLAIN_MODULE} required username="root" password="r" {USERS};'
        )
        given[f"listener.name.{name}.scram-sha-256.sasl.jaas.config"] = f"{SCRAM_MODULE} required;"
    with Cluster(2, settings=given) as running:
        yield running


def login(user: str, password: str, mechanism: str = "PLAIN", **more: str) -> Security:
    given = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        **more,
    }
    return security_of(given.get)


def address(cluster: Cluster, listener: str = "INNER", broker: int = 0) -> str:
    host = "::1" if listener == "SIX" else "127.0.0.1"
    return f"{host}:{cluster._app.brokers[broker].listeners.ports[listener]}"


def ask(
    cluster: Cluster,
    user: str,
    key: int,
    version: int,
    request: Any,
    *,
    broker: int = 0,
    **how: Any,
) -> Any:
    """What a broker answers somebody, who logs in by PLAIN unless told otherwise."""
    security = how.get("security") or login(user, PASSWORDS[user])
    port = cluster._app.brokers[broker].listeners.ports["INNER"]

    async def exchange() -> Any:
        connection = await Connection.open("127.0.0.1", port, "app", security=security)
        try:
            if key == ApiKey.FETCH:
                return await connection.fetch(version, request)
            return await connection.request(key, version, request)
        finally:
            await connection.close()

    return asyncio.run(exchange())


def grant(
    cluster: Cluster, who: str, kind: int, name: str, operation: int, says: int = ALLOW, **how: Any
) -> None:
    """Have an entry made by broker 0."""
    pattern, host = how.get("pattern", LITERAL), how.get("host", "*")
    entry = create_acls.AclCreation(kind, name, pattern, f"User:{who}", host, operation, says)
    answer = ask(cluster, "root", ApiKey.CREATE_ACLS, 3, create_acls.Request([entry]))
    assert [result.error_code for result in answer.results] == [0]


def named(*topics: str) -> metadata.Request:
    return metadata.Request([metadata.MetadataRequestTopic(ZERO_ID, name) for name in topics])


def code_of(cluster: Cluster, user: str, topic: str, **how: Any) -> int:
    """The code of a topic in Metadata, which does not create it."""
    asked = named(topic)
    asked.allow_auto_topic_creation = False
    (told,) = ask(cluster, user, ApiKey.METADATA, 9, asked, **how).topics
    return int(told.error_code)


def topics_of(cluster: Cluster) -> set[str]:
    everything = ask(cluster, "root", ApiKey.METADATA, 9, metadata.Request(None))
    return {topic.name for topic in everything.topics}


def soon(holds: Callable[[], bool]) -> None:
    """Other brokers hear of a change soon, and not at their next look at everything."""
    end = time.monotonic() + SOON_S
    while not holds():
        assert time.monotonic() < end, f"it did not happen within {SOON_S} s"


# Listeners and TLS


@needs_ipv6
def test_one_port_serves_an_ipv4_and_an_ipv6_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},SIX://[::1]:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SIX:PLAINTEXT",
    }
    with Cluster(1, settings=settings):
        for host in ("127.0.0.1", "::1"):
            with Raw(f"{host}:{port}") as raw:
                (broker,) = raw.ask(ApiKey.METADATA, 9, NOTHING).brokers
                assert (broker.host, broker.port) == (host, port)


def test_old_fields_of_a_registration_are_those_of_the_first_plaintext_listener(
    cluster: Cluster,
) -> None:
    async def registered() -> dict[str, Any]:
        session = await cluster._app.store.connect()
        node = await session.get(layout.broker_path(0))
        await session.close()
        assert node is not None
        read: dict[str, Any] = json.loads(node.data)
        return read

    node = cluster._run(registered())
    names = [text.partition(":")[0] for text in node["endpoints"]]
    assert names == ["INNER", "SHORT", "SSL", "SEALED", "LOCKED", "PLAINTEXT", *SIX]
    assert f"{node['host']}:{node['port']}" == address(cluster, "PLAINTEXT")


@pytest.mark.parametrize(
    ("broker", "name", "why"),
    [
        ("0", "listener.name.inner.plain.sasl.jaas.config", "for existing listener INNER"),
        ("", "listener.name.ssl.ssl.keystore.password", "only at broker level"),
    ],
)
def test_secrets_of_open_listeners_and_of_all_brokers_are_not_changed(
    cluster: Cluster, broker: str, name: str, why: str
) -> None:
    configs = [incremental_alter_configs.AlterableConfig(name, 0, f"{PLAIN_MODULE} required;")]
    resource = incremental_alter_configs.AlterConfigsResource(4, broker, configs)
    request = incremental_alter_configs.Request([resource])
    (told,) = ask(cluster, "root", ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses
    assert told.error_code == ErrorCode.INVALID_CONFIG
    assert why in told.error_message


def test_only_its_own_setting_asks_for_certificates_beside_a_login(
    cluster: Cluster, authority: Authority
) -> None:
    with Raw(address(cluster, "SEALED"), authority.client_tls()) as raw:
        assert log_in(raw, "alice") == 0
        assert raw.ask(ApiKey.METADATA, 9, NOTHING).brokers
    for listener in ("LOCKED", "SSL"):
        with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):  # noqa: SIM117
            with Raw(address(cluster, listener), authority.client_tls()) as raw:
                raw.ask(ApiKey.API_VERSIONS, 3, api_versions.Request("test", "1"))
    with Raw(address(cluster, "LOCKED"), authority.client_tls(authority.issue("dora"))) as raw:
        log_in(raw, "alice")
        assert raw.ask(ApiKey.METADATA, 9, NOTHING).brokers


def with_mail(authority: Authority) -> ssl.SSLContext:
    """A client's TLS whose certificate names an e-mail address."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.load_pem_x509_certificate(authority.ca.cert_pem.bytes())
    signer: Any = serialization.load_pem_private_key(authority.ca.private_key_pem.bytes(), None)
    subject = [
        x509.NameAttribute(NameOID.COMMON_NAME, "mail"),
        x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b"),
    ]
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(subject))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(issuer.not_valid_before_utc)
        .not_valid_after(issuer.not_valid_after_utc)
        .sign(signer, hashes.SHA256())
    )
    plain = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path = authority.directory / "mail.pem"
    path.write_bytes(pkcs8(plain) + made.public_bytes(serialization.Encoding.PEM))
    context = authority.client_tls()
    context.load_cert_chain(str(path))
    return context


def test_an_address_in_a_certificate_is_a_number_in_the_audit(
    cluster: Cluster, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.INFO, "klamm.authorizer"),
        Raw(address(cluster, "SSL"), with_mail(authority)) as raw,
    ):
        (told,) = raw.ask(ApiKey.METADATA, 9, named("mailed")).topics
    assert told.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    who = "Principal = User:1.2.840.113549.1.9.1=#1603614062,CN=mail is Denied"
    assert [r for r in caplog.records if r.getMessage().startswith(who)]


# SASL


def log_in(raw: Raw, user: str) -> int:
    """Log in by PLAIN; how long that holds, in ms."""
    assert raw.ask(HANDSHAKE, 1, sasl_handshake.Request("PLAIN")).error_code == 0
    token = f"\0{user}\0{PASSWORDS[user]}".encode()
    answer = raw.ask(AUTHENTICATE, 2, sasl_authenticate.Request(token))
    assert answer.error_code == 0, answer.error_message
    lifetime: int = answer.session_lifetime_ms
    return lifetime


def test_versions_may_be_asked_for_again_after_a_refusal(cluster: Cluster) -> None:
    with Raw(address(cluster)) as raw:
        raw.tell_token(struct.pack(">hhi", ApiKey.API_VERSIONS, 99, 7) + bytes(6))
        assert raw.hear(ApiKey.API_VERSIONS, 0).error_code == ErrorCode.UNSUPPORTED_VERSION
        told = raw.ask(ApiKey.API_VERSIONS, 3, api_versions.Request("test", "1"))
        assert told.error_code == 0
        log_in(raw, "alice")
        assert raw.ask(ApiKey.METADATA, 9, NOTHING).brokers


def test_another_request_instead_of_a_token_is_answered_in_its_own_form(cluster: Cluster) -> None:
    with Raw(address(cluster)) as raw:
        raw.ask(HANDSHAKE, 1, sasl_handshake.Request("PLAIN"))
        told = raw.ask(ApiKey.METADATA, 9, named("any"))
        assert [topic.error_code for topic in told.topics] == [ErrorCode.ILLEGAL_SASL_STATE]
        assert told.brokers == [], "nothing else is told"
        assert raw.is_closed()


def expired(cluster: Cluster) -> int:
    counts = cluster._app.brokers[0].parts.seat.identity.counts
    return counts.by_outcome["SHORT", "expired"]


def test_a_session_that_ended_is_counted_and_its_mechanism_is_kept(cluster: Cluster) -> None:
    before = expired(cluster)
    with Raw(address(cluster, "SHORT")) as idle, Raw(address(cluster, "SHORT")) as raw:
        assert log_in(idle, "alice") == log_in(raw, "alice") == SESSION_MS
        # A login is not repeated sooner than a second after the last.
        time.sleep(1.05)
        assert raw.ask(HANDSHAKE, 1, sasl_handshake.Request("SCRAM-SHA-256")).error_code == 0
        raw.tell(AUTHENTICATE, 2, sasl_authenticate.Request(b"n,,n=alice,r=abc"))
        assert raw.is_closed()
        time.sleep(SESSION_MS / 1000 - 1)
        idle.tell(ApiKey.METADATA, 9, NOTHING)
        assert idle.is_closed()
    assert expired(cluster) == before + 1


def alter_dave(cluster: Cluster, password: str | None) -> None:
    messages = alter_user_scram_credentials
    gone = [messages.ScramCredentialDeletion("dave", 1)] if password is None else []
    come = []
    if password is not None:
        salted = salted_password(ScramMechanism.SHA_256, password, b"salt", 4096)
        come = [messages.ScramCredentialUpsertion("dave", 1, 4096, b"salt", salted)]
    controller = cluster.wait_for_controller()
    key = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    answer = ask(cluster, "root", key, 0, messages.Request(gone, come), broker=controller)
    assert [one.error_code for one in answer.results] == [0]


def lets_in(cluster: Cluster, broker: int, security: Security) -> bool:
    try:
        told = ask(cluster, "", ApiKey.METADATA, 9, NOTHING, broker=broker, security=security)
    except Distrusted:
        return False
    return bool(told.brokers)


def test_a_user_made_and_removed_is_so_on_every_broker_soon(cluster: Cluster) -> None:
    dave = login("dave", "pw", "SCRAM-SHA-256")
    alter_dave(cluster, "pw")
    for broker in (0, 1):
        soon(lambda broker=broker: lets_in(cluster, broker, dave))  # type: ignore[misc]
    alter_dave(cluster, None)
    for broker in (0, 1):
        soon(lambda broker=broker: not lets_in(cluster, broker, dave))  # type: ignore[misc]


def first_answer(cluster: Cluster, user: str) -> tuple[int, int]:
    """The rounds, and the size of the salt, that a broker tells of a user."""
    with Raw(address(cluster)) as raw:
        raw.ask(HANDSHAKE, 1, sasl_handshake.Request("SCRAM-SHA-256"))
        first = sasl_authenticate.Request(f"n,,n={user},r=abc".encode())
        answer = raw.ask(AUTHENTICATE, 2, first)
    told = dict(part.split("=", 1) for part in answer.auth_bytes.decode().split(","))
    return int(told["i"]), len(base64.b64decode(told["s"]))


def test_who_exists_is_not_seen_in_the_first_answer(cluster: Cluster) -> None:
    async def add() -> None:
        given = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "root",
            "sasl.password": PASSWORDS["root"],
        }
        async with Client.of(address(cluster), of_properties(given)) as client:
            await users.set_password(client, "erin", "pw", [ScramMechanism.SHA_256])

    asyncio.run(add())
    soon(lambda: first_answer(cluster, "erin") == (users.ROUNDS, 24))
    assert first_answer(cluster, "nobody") == first_answer(cluster, "erin")


# Delegation tokens


def test_a_token_holds_on_every_broker_until_it_is_ended(cluster: Cluster) -> None:
    def token(key: int, request: Any, user: str = "alice", broker: int = 1) -> Any:
        return ask(cluster, user, key, 2, request, broker=broker)

    group = create_delegation_token.CreatableRenewers("Group", "ops")
    asked = create_delegation_token.Request(None, None, [group], -1)
    assert token(38, asked).error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    made = token(38, create_delegation_token.Request(None, None, [], -1), broker=0)
    assert made.error_code == 0
    hmac, word = bytes(made.hmac), base64.b64encode(made.hmac).decode()
    jaas = f'{SCRAM_MODULE} required username="{made.token_id}" password="{word}" tokenauth="true";'
    given = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": jaas,
    }
    by_token = security_of(given.get)
    for broker in (0, 1):
        soon(lambda broker=broker: lets_in(cluster, broker, by_token))  # type: ignore[misc]
    longest = token(39, renew_delegation_token.Request(hmac, 2**62))
    assert (longest.error_code, longest.expiry_timestamp_ms) == (0, made.max_timestamp_ms)
    stranger = token(39, renew_delegation_token.Request(hmac, 1), "bob")
    assert stranger.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    unknown = token(39, renew_delegation_token.Request(b"x" * 64, 1))
    assert unknown.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert token(40, expire_delegation_token.Request(hmac, -1)).error_code == 0
    for broker in (0, 1):
        soon(lambda broker=broker: not lets_in(cluster, broker, by_token))  # type: ignore[misc]


def test_without_a_secret_tokens_are_off() -> None:
    jaas = f'{PLAIN_MODULE} required username="root" password="r" {USERS};'
    settings = {
        "listeners": "INNER://127.0.0.1:0",
        "listener.security.protocol.map": "INNER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INNER",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.inner.plain.sasl.jaas.config": jaas,
    }
    with Cluster(1, settings=settings) as cluster:
        for key, request in (
            (38, create_delegation_token.Request(None, None, [], -1)),
            (39, renew_delegation_token.Request(b"x", -1)),
            (40, expire_delegation_token.Request(b"x", -1)),
        ):
            told = ask(cluster, "alice", key, 2, request)
            assert told.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


# Access control lists


def test_a_denial_beats_a_permission_and_no_super_user(cluster: Cluster) -> None:
    cluster.create_topic("orders-1")
    cluster.create_topic("orders-2")
    grant(cluster, "alice", TOPIC, "orders-", READ, pattern=PREFIXED)
    for broker in (0, 1):
        soon(lambda broker=broker: code_of(cluster, "alice", "orders-1", broker=broker) == 0)  # type: ignore[misc]
    grant(cluster, "alice", TOPIC, "orders-1", READ, DENY)
    assert code_of(cluster, "alice", "orders-1") == 0, "a denial of READ leaves DESCRIBE"
    assert fetched(cluster, "alice", "orders-1") == 29
    assert fetched(cluster, "alice", "orders-2") == 0
    grant(cluster, "*", TOPIC, "orders-1", ALL, DENY)
    assert code_of(cluster, "alice", "orders-1") == 29
    assert fetched(cluster, "root", "orders-1") == 0
    soon(lambda: code_of(cluster, "alice", "orders-1", broker=1) == 29)


def fetched(cluster: Cluster, user: str, topic: str, replica: int = -1) -> int:
    topics = [FetchTopic(topic, ZERO_ID, [FetchPartition(0, -1, 0)])]
    request = FetchRequest(max_wait_ms=0, topics=topics, replica_id=replica)
    leader = cluster.wait_for_leader(topic) if replica < 0 else 0
    (told,) = ask(cluster, user, ApiKey.FETCH, 12, request, broker=leader).topics
    return int(told.partitions[0].error_code)


@needs_ipv6
@pytest.mark.parametrize(("host", "code"), [("::1", 29), ("0:0:0:0:0:0:0:1", 0)])
def test_a_host_of_ipv6_is_written_in_full(cluster: Cluster, host: str, code: int) -> None:
    name = f"six-{code}"
    cluster.create_topic(name)
    grant(cluster, "ANONYMOUS", TOPIC, name, DESCRIBE, host=host)
    with Raw(address(cluster, "SIX")) as raw:
        assert raw.ask(ApiKey.METADATA, 9, named(name)).topics[0].error_code == code
    with Raw(address(cluster, "PLAINTEXT")) as raw:
        assert raw.ask(ApiKey.METADATA, 9, named(name)).topics[0].error_code == 29


def test_who_asks_for_all_topics_is_not_told_of_others_and_nobody_else_is(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create_topic("hidden")
    with caplog.at_level(logging.INFO, "klamm.authorizer"):
        told = ask(cluster, "carol", ApiKey.METADATA, 9, metadata.Request(None))
        assert told.topics == []
        assert [r for r in caplog.records if r.name == "klamm.authorizer"] == []
        assert code_of(cluster, "carol", "hidden") == 29
        assert [r for r in caplog.records if r.name == "klamm.authorizer"]


def test_a_topic_is_made_on_demand_for_who_may_see_and_make_it(cluster: Cluster) -> None:
    def asked(user: str, topic: str) -> int:
        (told,) = ask(cluster, user, ApiKey.METADATA, 9, named(topic)).topics
        return int(told.error_code)

    grant(cluster, "alice", TOPIC, "made", DESCRIBE)
    assert asked("alice", "made") == 29
    assert "made" not in topics_of(cluster)
    grant(cluster, "alice", TOPIC, "made", CREATE)
    assert asked("alice", "made") != 29
    soon(lambda: asked("alice", "made") == 0)
    grant(cluster, "carol", CLUSTER, "kafka-cluster", CREATE)
    assert asked("carol", "unmade") == 29
    assert "unmade" not in topics_of(cluster)


def test_an_idempotent_producer_needs_some_topic_to_write(cluster: Cluster) -> None:
    def asked() -> int:
        key = ApiKey.INIT_PRODUCER_ID
        return int(ask(cluster, "bob", key, 4, init_producer_id.Request(None, 1000)).error_code)

    assert asked() == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    grant(cluster, "bob", TOPIC, "pay-", WRITE, pattern=PREFIXED)
    assert asked() == 0
    grant(cluster, "bob", TOPIC, "*", WRITE, DENY)
    assert asked() == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_one_forbidden_topic_keeps_all_out_of_a_transaction(cluster: Cluster) -> None:
    cluster.create_topic("mine")
    grant(cluster, "carol", TOPIC, "mine", WRITE)
    grant(cluster, "carol", TXN, "txn", WRITE)
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(n, [0]) for n in ("mine", "theirs")]
    request = add_partitions_to_txn.Request([], "txn", 1, 0, topics)
    told = ask(cluster, "carol", ApiKey.ADD_PARTITIONS_TO_TXN, 3, request)
    assert {
        topic.name: [p.partition_error_code for p in topic.results_by_partition]
        for topic in told.results_by_topic_v3_and_below
    } == {"mine": [ErrorCode.OPERATION_NOT_ATTEMPTED], "theirs": [29]}


def test_what_brokers_ask_of_each_other_is_refused_to_users(cluster: Cluster) -> None:
    assert fetched(cluster, "carol", "any", replica=1) == 29
    order = leader_and_isr.Request(controller_id=0, controller_epoch=99)
    told = ask(cluster, "carol", ApiKey.LEADER_AND_ISR, 5, order)
    assert told.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
