"""SCRAM credentials over the wire: kept as Kafka keeps them, told without secrets."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from interop.wire import Wire
from klamm import Cluster
from klamm.model.scram import ScramMechanism as Mechanism
from klamm.model.scram import salted_password
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import alter_client_quotas, describe_client_quotas
from klamm.protocol.messages import alter_user_scram_credentials as altering
from klamm.protocol.messages import describe_user_scram_credentials as describing
from klamm.security.credentials.scram import decode_credential

ALTER, DESCRIBE = ApiKey.ALTER_USER_SCRAM_CREDENTIALS, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
SHA_256, SHA_512 = 1, 2
SALT = b"0123456789abcdef"


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with Cluster(2) as cluster:
        yield Wire(cluster)


def upsertion(
    user: str, mechanism: int = SHA_256, rounds: int = 4096, salt: bytes = SALT
) -> altering.ScramCredentialUpsertion:
    salted = salted_password(Mechanism.SHA_256, "secret", salt, 4096)
    return altering.ScramCredentialUpsertion(user, mechanism, rounds, salt, salted)


def deletion(user: str, mechanism: int = SHA_256) -> altering.ScramCredentialDeletion:
    return altering.ScramCredentialDeletion(user, mechanism)


def alter(wire: Wire, *changes: Any, broker: int | None = None) -> dict[str, tuple[int, Any]]:
    gone = [each for each in changes if isinstance(each, altering.ScramCredentialDeletion)]
    come = [each for each in changes if not isinstance(each, altering.ScramCredentialDeletion)]
    answer = wire.ask(ALTER, 0, altering.Request(gone, come), broker=broker)
    return {one.user: (one.error_code, one.error_message) for one in answer.results}


def describe(wire: Wire, *users: str, broker: int = 0) -> dict[str, Any]:
    names = [describing.UserName(user) for user in users]
    answer = wire.ask(DESCRIBE, 0, describing.Request(names or None), broker=broker)
    assert answer.error_code == 0
    return {
        one.user: one.error_code or [(i.mechanism, i.iterations) for i in one.credential_infos]
        for one in answer.results
    }


def stored(wire: Wire, name: str) -> dict[str, str]:
    async def read(session: Any) -> bytes:
        node = await session.get(f"/config/users/{name}")
        return bytes(node.data)

    config: dict[str, str] = json.loads(wire.in_store(read))["config"]
    return config


def test_a_credential_is_kept_as_kafka_keeps_it(wire: Wire) -> None:
    assert alter(wire, upsertion("al ice*")) == {"al ice*": (0, None)}
    text = stored(wire, "al%20ice%2A")["SCRAM-SHA-256"]
    assert [part.split("=")[0] for part in text.split(",")] == [
        "salt",
        "stored_key",
        "server_key",
        "iterations",
    ]
    credential = decode_credential(text)
    assert credential is not None
    salted = hashlib.pbkdf2_hmac("sha256", b"secret", SALT, 4096)
    key = hmac.digest(salted, b"Client Key", "sha256")
    assert credential.stored_key == hashlib.sha256(key).digest()
    assert credential.server_key == hmac.digest(salted, b"Server Key", "sha256")


def test_users_are_told_by_name_with_nothing_secret(wire: Wire) -> None:
    alter(wire, upsertion("zoe", SHA_512, 8192), upsertion("zoe"), upsertion("bob"))
    told = describe(wire, broker=1)
    assert list(told) == sorted(told)
    assert told["zoe"] == [(SHA_256, 4096), (SHA_512, 8192)]
    assert describe(wire, "bob", "nobody", "") == {"bob": [(SHA_256, 4096)], "nobody": 91, "": 91}
    assert describe(wire, "bob", "bob") == {"bob": 92}


def test_each_user_is_changed_as_a_whole_or_not_at_all(wire: Wire) -> None:
    alter(wire, upsertion("whole"))
    told = alter(
        wire,
        upsertion("whole", SHA_512),
        deletion("whole"),
        upsertion("half", SHA_256),
        upsertion("half", SHA_512, 4095),
        deletion("gone"),
    )
    assert told == {
        "whole": (0, None),
        "half": (93, "Too few iterations"),
        "gone": (91, "Attempt to delete a user credential that does not exist"),
    }
    assert describe(wire, "whole", "half") == {"whole": [(SHA_512, 4096)], "half": 91}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (upsertion(""), 93),
        (upsertion("u", 7), 33),
        (upsertion("u", rounds=4095), 93),
        (upsertion("u", rounds=16385), 93),
        (upsertion("u", salt=b"x" * 2000), 93),
        (upsertion("u" * 600), 93),
        (deletion("u"), 91),
        (deletion(""), 93),
    ],
)
def test_what_cannot_be_a_credential_is_refused(wire: Wire, change: Any, code: int) -> None:
    assert alter(wire, change)[change.name][0] == code


def test_the_same_credential_twice_is_refused(wire: Wire) -> None:
    assert alter(wire, upsertion("twice"), upsertion("twice"))["twice"][0] == 92
    assert alter(wire, upsertion("twice"), deletion("twice"))["twice"][0] == 92


def test_only_the_controller_changes_credentials(wire: Wire) -> None:
    assert alter(wire, upsertion("u"), broker=wire.other)["u"][0] == 41


def test_quotas_and_credentials_of_a_user_do_not_hurt_each_other(wire: Wire) -> None:
    alter(wire, upsertion("both"))
    entity = [alter_client_quotas.EntityData("user", "both")]
    op = alter_client_quotas.OpData("producer_byte_rate", 1000.0)
    request = alter_client_quotas.Request([alter_client_quotas.EntryData(entity, [op])])
    assert wire.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, request).entries[0].error_code == 0
    alter(wire, upsertion("both", SHA_512))
    assert stored(wire, "both").keys() == {"SCRAM-SHA-256", "SCRAM-SHA-512", "producer_byte_rate"}
    filter_ = describe_client_quotas.ComponentData("user", 0, "both")
    told = wire.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, describe_client_quotas.Request([filter_]))
    assert [value.key for value in told.entries[0].values] == ["producer_byte_rate"]
    alter(wire, deletion("both"), deletion("both", SHA_512))
    assert describe(wire, "both") == {"both": 91}
    assert stored(wire, "both").keys() == {"producer_byte_rate"}


def test_a_change_is_announced_to_all_brokers(wire: Wire) -> None:
    alter(wire, upsertion("heard"))

    async def read(session: Any) -> list[bytes]:
        names = await session.children("/config/changes")
        return [(await session.get(f"/config/changes/{name}")).data for name in names]

    assert b'{"version":2,"entity_path":"users/heard"}' in wire.in_store(read)


def test_librdkafka_sets_finds_and_removes_them(wire: Wire) -> None:
    admin = AdminClient({"bootstrap.servers": wire.cluster.bootstrap_servers})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 10_000)
    made = admin.alter_user_scram_credentials([UserScramCredentialUpsertion("rd", info, b"secret")])
    assert made["rd"].result() is None
    (told,) = admin.describe_user_scram_credentials(["rd"])["rd"].result().scram_credential_infos
    assert (told.mechanism, told.iterations) == (ScramMechanism.SCRAM_SHA_512, 10_000)
    gone = UserScramCredentialDeletion("rd", ScramMechanism.SCRAM_SHA_512)
    assert admin.alter_user_scram_credentials([gone])["rd"].result() is None
