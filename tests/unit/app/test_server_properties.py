"""A server.properties of Kafka's, and the options over it, as the wishes for one broker."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from klamm.app.server_properties import BrokerWishes, checked, gathered, read_file
from klamm.log.disk.checkpoints import DirectoryIdentity, write_identity
from klamm.model.errors import UsageError

BASE = {"zookeeper.connect": "zk1:2181/kafka", "listeners": "PLAINTEXT://127.0.0.1:0"}


def wishes(here: Path, **more: str) -> BrokerWishes:
    dotted = {name.replace("_", "."): text for name, text in more.items()}
    return checked({**BASE, "log.dirs": "logs", **dotted}, here)


def own(path: Path, broker: int) -> None:
    path.mkdir()
    write_identity(str(path / "meta.properties"), DirectoryIdentity(broker, "c", "d"))


def test_kafkas_own_file_is_read_with_its_escapes_and_continued_lines(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "# The id of the broker.\nbroker.id=3\nlog.dirs=/a,\\\n    /b\nbroker.rack=caf\\u00e9\n"
    )
    assert read_file(file) == {"broker.id": "3", "log.dirs": "/a,/b", "broker.rack": "café"}


def test_a_file_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*missing.*--config"):
        read_file(tmp_path / "missing")
    huge = tmp_path / "huge"
    huge.write_bytes(b"a=b\n" * 400_000)
    with pytest.raises(UsageError, match="no file of settings"):
        read_file(huge)


def test_an_option_counts_before_the_file_and_contradicts_no_other() -> None:
    file = {"broker.id": "1", "node.id": "1", "num.partitions": "5"}
    given = gathered(file, {"broker.id": "2", "listeners": None}, {"num.partitions": "7"})
    assert given == {"broker.id": "2", "num.partitions": "7"}
    with pytest.raises(UsageError, match=r"-X broker.id=3 contradicts"):
        gathered({}, {"broker.id": "2"}, {"broker.id": "3"})


def test_what_is_unknown_in_a_file_is_told_and_what_looks_like_protection_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        assert gathered({"confluent.metrics": "x", "log.retention.msec": "5"}, {}, {}) == {}
    (line,) = caplog.messages
    assert "confluent.metrics is no setting of klamm" in line
    assert "Did you mean log.retention.ms?" in line
    with pytest.raises(UsageError, match="PROTECTS NOTHING"):
        gathered({"authorizer.klass.name": "x"}, {}, {})


def test_log_directories_are_absolute_and_named_once(tmp_path: Path) -> None:
    assert wishes(tmp_path, log_dirs="a, /b").log_dirs == (str(tmp_path / "a"), "/b")
    with pytest.raises(UsageError, match="twice"):
        wishes(tmp_path, log_dirs="a,./a")
    with pytest.raises(UsageError, match="--log-dirs"):
        checked(BASE, tmp_path)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"zookeeper.connect": ""}, "--zookeeper"),
        ({"process.roles": "broker"}, "asks for KRaft"),
        ({"controller.quorum.voters": "1@a:9093"}, "asks for KRaft"),
        ({"broker.id": "1", "node.id": "2"}, "contradict each other"),
        ({"broker.id": "-2"}, "0 or more"),
        ({"broker.id": "1001"}, "above reserved.broker.max.id"),
        ({"broker.id.generation.enable": "false"}, "--id"),
        ({"listeners": "SASL_SSL://:9093"}, "must be a listener name|SASL"),
        ({"num.partitions": "many"}, "num.partitions"),
    ],
)
def test_a_wrong_wish_is_one_sentence(tmp_path: Path, given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        checked({**BASE, "log.dirs": "logs", **given}, tmp_path)


def test_the_number_is_that_of_the_settings_or_of_the_logs_or_drawn(tmp_path: Path) -> None:
    assert wishes(tmp_path, broker_id="4").id == 4
    assert wishes(tmp_path, node_id="4").id == 4
    assert wishes(tmp_path).id is None
    own(tmp_path / "logs", 1001)
    assert wishes(tmp_path).id == 1001
    assert wishes(tmp_path, broker_id="1001", reserved_broker_max_id="2000").id == 1001


def test_logs_of_another_broker_refuse_the_start(tmp_path: Path) -> None:
    own(tmp_path / "logs", 5)
    with pytest.raises(UsageError, match=r"is of broker 5, and this is to be broker 6"):
        wishes(tmp_path, broker_id="6")
    own(tmp_path / "more", 6)
    with pytest.raises(UsageError, match="not of one broker"):
        wishes(tmp_path, log_dirs="logs,more")


def test_what_has_no_effect_is_told_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        wishes(tmp_path, num_io_threads="8", background_threads="4")
    assert caplog.messages == ["no effect here: num.io.threads, background.threads"]
