"""What one keeps of security in ZooKeeper, the other takes: klamm, a broker of Kafka's, klamm."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from guarded import PLAIN_MODULE, SCRAM_MODULE
from interop_extra.kafka_server import _free_port, kafka_server
from klamm import Cluster
from klamm.client.aio.connection import Connection
from klamm.client.security.settings import Security, security_of
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import create_delegation_token, metadata
from klamm.security.credentials.tokens import token_hmac
from klamm.security.secret import Secret
from unit.store.zookeeper_server import ZooKeeperServer

AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
HIDDEN = "listener.name.later.plain.sasl.jaas.config"
JAAS = f'{PLAIN_MODULE} required username="u" password="hünter2" user_u="hünter2";'
SETTINGS = {
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "authorizer.class.name": AUTHORIZER,
    "super.users": "User:ANONYMOUS",
    "password.encoder.secret": "hidden",
    "delegation.token.secret.key": "shared",
}
EVERYTHING = AclBindingFilter(
    ResourceType.ANY,
    None,
    ResourcePatternType.ANY,
    None,
    None,
    AclOperation.ANY,
    AclPermissionType.ANY,
)


def binding(who: str, pattern: ResourcePatternType) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        f"of {who}",
        pattern,
        f"User:{who}",
        "10.0.0.1",
        AclOperation.DESCRIBE_CONFIGS,
        AclPermissionType.DENY,
    )


KLAMMS = binding("klamm", ResourcePatternType.LITERAL)
KAFKAS = binding("kafka", ResourcePatternType.PREFIXED)


def leave(servers: str, user: str, acl: AclBinding) -> None:
    """Make a user and an entry."""
    admin = AdminClient({"bootstrap.servers": servers})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    made = admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, info, b"pw")])
    for future in [*made.values(), *admin.create_acls([acl]).values()]:
        future.result(30)


def lists(servers: str) -> set[AclBinding]:
    admin = AdminClient({"bootstrap.servers": servers})
    found = admin.describe_acls(EVERYTHING).result(30)
    assert found is not None
    return set(found)


def hide(servers: str) -> None:
    """Set a password of broker 0 while it runs."""
    entry = ConfigEntry(HIDDEN, JAAS, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.BROKER, "0", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def by(user: str) -> Security:
    return scram(f'username="{user}" password="pw"')


def by_token(id: str, hmac: bytes) -> Security:
    word = base64.b64encode(hmac).decode()
    return scram(f'username="{id}" password="{word}" tokenauth="true"')


def scram(words: str) -> Security:
    given = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f"{SCRAM_MODULE} required {words};",
    }
    return security_of(given.get)


def ask(port: int, security: Security, key: int, version: int, request: Any) -> Any:
    async def exchange() -> Any:
        connection = await Connection.open("127.0.0.1", port, "app", security=security)
        try:
            return await connection.request(key, version, request)
        finally:
            await connection.close()

    return asyncio.run(exchange())


def logs_in(port: int, security: Security) -> bool:
    return bool(ask(port, security, ApiKey.METADATA, 9, metadata.Request(topics=[])).brokers)


def token(port: int) -> Security:
    """What klamm's user logs in with who has asked there for a token."""
    asked = create_delegation_token.Request(None, None, [], -1)
    made = ask(port, by("klamm"), ApiKey.CREATE_DELEGATION_TOKEN, 2, asked)
    assert made.error_code == 0
    assert bytes(made.hmac) == token_hmac(Secret("shared"), made.token_id)
    return by_token(made.token_id, bytes(made.hmac))


def test_users_lists_tokens_and_passwords_change_hands(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    connect = f"{zookeeper.connect_string}/shared-security"
    here = SETTINGS | {"listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"}
    with Cluster(1, settings=here, zookeeper=connect) as cluster:
        leave(cluster.bootstrap_on("PLAINTEXT"), "klamm", KLAMMS)
        klamms = token(cluster._app.brokers[0].listeners.ports["SASL_PLAINTEXT"])
    address, port = f"127.0.0.1:{_free_port()}", _free_port()
    there = SETTINGS | {
        "listeners": f"PLAINTEXT://{address},SASL_PLAINTEXT://127.0.0.1:{port}",
        "zookeeper.session.timeout.ms": 6000,
    }
    output = tmp_path / "kafka.log"
    with kafka_server(tmp_path / "kafka", connect, output, there, address=address):
        assert logs_in(port, by("klamm"))
        assert logs_in(port, klamms)
        assert lists(address) == {KLAMMS}
        leave(address, "kafka", KAFKAS)
        hide(address)
        kafkas = token(port)
    with Cluster(1, settings=here, zookeeper=connect) as cluster:
        assert lists(cluster.bootstrap_on("PLAINTEXT")) == {KLAMMS, KAFKAS}
        broker = cluster._app.brokers[0]
        for login in (by("klamm"), by("kafka"), klamms, kafkas):
            assert logs_in(broker.listeners.ports["SASL_PLAINTEXT"], login)
        assert broker.parts.settings.own_dynamic.get(HIDDEN) == JAAS
