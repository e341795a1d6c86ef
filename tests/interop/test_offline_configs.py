"""Settings of a cluster that does not run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interop.wire import BROKER, SET, Wire, check
from klamm import Cluster
from klamm.cli.__main__ import main
from klamm.model.errors import ErrorCode
from klamm.store import layout
from klamm.store.layout import ConfigEntity, ConfigKind
from klamm.store.port import Create, Session

ALL = ConfigEntity(ConfigKind.BROKER, None)


def configs(capsys: pytest.CaptureFixture[str], *args: str, data: Path) -> tuple[int, str]:
    code = main(["configs", *args, "--offline", "--data", str(data)])
    said = capsys.readouterr()
    return code, said.out + said.err


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("max.connections", "0"),
        ("max.connections.per.ip", "0"),
        ("max.connection.creation.rate", "0"),
        ("max.connections", "-1"),
    ],
)
def test_a_setting_that_would_lock_everybody_out_is_refused(name: str, text: str) -> None:
    with Cluster(brokers=1) as cluster:
        answer = Wire(cluster).alter(BROKER, "", (name, SET, text))
        check(answer, ErrorCode.INVALID_CONFIG, name)
    with pytest.raises(Exception, match=name.replace(".", r"\.")):
        Cluster(brokers=1, settings={name: text})


def test_a_cluster_that_was_locked_by_an_older_one_comes_up(tmp_path: Path) -> None:
    """What such a version stored is left out, and can be removed while the cluster is stopped."""

    async def lock(session: Session) -> None:
        data = layout.encode_config({"max.connections": "0", "log.cleaner.threads": "2"})
        await session.multi([Create(ALL.path, data)])

    with Cluster(brokers=2, data=tmp_path) as cluster:
        Wire(cluster).in_store(lock)
    with Cluster(brokers=2, data=tmp_path) as cluster:
        cluster.create_topic("t", 1, 2)
        cluster.wait_for_isr("t")


def test_settings_are_read_changed_and_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster(brokers=1, data=tmp_path) as cluster:
        cluster.create_topic("t", 1, 1, {"retention.ms": 5000})
        Wire(cluster).alter(BROKER, "", ("max.connections", SET, "1"))
        code, said = configs(capsys, "get", "--brokers", data=tmp_path)
        assert code == 2
        assert "in use" in said
    code, said = configs(capsys, "get", "--brokers", "-o", "json", data=tmp_path)
    assert code == 0
    assert json.loads(said) == {"max.connections": {"value": "1", "source": "STORED"}}
    code, said = configs(capsys, "get", "--brokers", data=tmp_path)
    assert [line.split() for line in said.splitlines()][-1] == ["max.connections", "1", "stored"]
    assert configs(capsys, "unset", "--brokers", "max.connections", data=tmp_path)[0] == 0
    assert configs(capsys, "set", "--broker", "0", "max.connections=50", data=tmp_path)[0] == 0
    assert configs(capsys, "set", "-t", "t", "retention.ms=6000", data=tmp_path)[0] == 0
    with Cluster(brokers=1, data=tmp_path) as cluster:
        settings = cluster._app.brokers[0].parts.settings
        assert settings.int("max.connections") == 50
        assert not settings.cluster_dynamic
        topic = cluster._app.brokers[0].parts.dynamic_config.topic("t")
        assert topic.int("retention.ms") == 6000


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (
            ("set", "--brokers", "max.connections=0"),
            "Invalid value 0 for configuration max.connections: Value must be at least 1",
        ),
        (("set", "--brokers", "max.conections=1"), "max.conections"),
        (("set", "--brokers", "klamm.internal.requests.from=proof"), "set at start-up"),
        (("set", "-t", "nope", "retention.ms=1"), "there is no topic 'nope'"),
        (
            ("set", "-t", "t", "retention.ms=x"),
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (("unset", "--brokers", "max.connections"), "max.connections is not set"),
        (("get", "--brokers", "--all"), "leave out --all"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    locked: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...], words: str
) -> None:
    before = configs(capsys, "get", "-t", "t", data=locked)
    code, said = configs(capsys, *args, data=locked)
    is_absent = words.startswith("there is no")
    assert (code, words in said) == (1 if is_absent else 2, True), said
    assert configs(capsys, "get", "-t", "t", data=locked) == before


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stopped")
    with Cluster(brokers=1, data=path) as cluster:
        cluster.create_topic("t", 1, 1, {"retention.ms": 5000})
    return path


def test_a_directory_without_a_cluster_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = configs(capsys, "get", "--brokers", data=tmp_path)
    assert code == 2
    assert "there is no cluster in" in said
    assert list(tmp_path.iterdir()) == []


def test_where_to_look_goes_with_offline(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["configs", "get", "--brokers", "--data", "/nowhere"]) == 2
    assert "need --offline" in capsys.readouterr().err
