"""A password that is set while a broker runs is seen by nobody: in the store, told, or logged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interop.wire import BROKER, SET, Wire
from klamm import Cluster
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import describe_configs

NAME = "listener.name.later.plain.sasl.jaas.config"
JAAS = 'PlainLoginModule required username="u" password="hunter2" user_u="hunter2";'


def stored(wire: Wire) -> dict[str, str]:
    async def read(session: Any) -> bytes:
        node = await session.get("/config/brokers/0")
        return bytes(node.data)

    config: dict[str, str] = json.loads(wire.in_store(read))["config"]
    return config


def in_force(cluster: Cluster) -> str | None:
    return cluster._app.brokers[0].parts.settings.own_dynamic.get(NAME)


def told(wire: Wire) -> Any:
    wanted = describe_configs.DescribeConfigsResource(BROKER, "0", None)
    request = describe_configs.Request([wanted], include_synonyms=True)
    return wire.ask(ApiKey.DESCRIBE_CONFIGS, 4, request, broker=0).results[0]


def test_a_password_is_hidden_wherever_it_goes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Cluster(1, data=tmp_path, settings={"password.encoder.secret": "one"}) as cluster:
        wire = Wire(cluster)
        answer = wire.alter(BROKER, "0", (NAME, SET, JAAS))
        assert (answer.error_code, answer.error_message) == (0, None)
        wire.settle()
        assert in_force(cluster) == JAAS
        assert "hunter2" not in repr(stored(wire))
        assert stored(wire)[NAME].startswith("keyFactoryAlgorithm:")
        assert "hunter2" not in repr(told(wire))
        (entry,) = [config for config in told(wire).configs if config.name == NAME]
        assert (entry.value, entry.is_sensitive) == (None, True)
        wire.alter(BROKER, "0", ("log.cleaner.backoff.ms", SET, "1234"))
        wire.settle()
        assert in_force(cluster) == JAAS, "a change of something else leaves it"
    rotated = {"password.encoder.secret": "two", "password.encoder.old.secret": "one"}
    with Cluster(1, data=tmp_path, settings=rotated) as cluster:
        before = stored(Wire(cluster))[NAME]
        assert in_force(cluster) == JAAS
    with Cluster(1, data=tmp_path, settings={"password.encoder.secret": "two"}) as cluster:
        assert stored(Wire(cluster))[NAME] == before, "it was hidden anew once"
        assert in_force(cluster) == JAAS
    with Cluster(1, data=tmp_path) as cluster:
        assert in_force(cluster) is None, "without the secret it is left out"
        wire = Wire(cluster)
        wire.alter(BROKER, "0", ("log.cleaner.backoff.ms", SET, "1235"))
        assert stored(wire)[NAME] == before, "and kept"
    assert "hunter2" not in caplog.text + repr([vars(record) for record in caplog.records])


def test_a_password_without_a_secret_or_for_all_brokers_is_refused() -> None:
    with Cluster(1) as cluster:
        wire = Wire(cluster)
        answer = wire.alter(BROKER, "0", (NAME, SET, JAAS))
        assert answer.error_code == 40
        assert "Password encoder secret not configured" in answer.error_message
        answer = wire.alter(BROKER, "", (NAME, SET, JAAS))
        assert answer.error_code == 40
        assert "hunter2" not in answer.error_message
