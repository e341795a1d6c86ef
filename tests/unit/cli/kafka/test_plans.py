"""The JSON files of Kafka's tools: what is wrong with one is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.cli.kafka import plans
from klamm.model.errors import ErrorCode
from klamm.model.names import TopicPartition


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a valid JSON"),
        ("[" * 100_000, "not a valid JSON"),
        ("[]", "not a valid JSON object"),
        ('{"version": 2}', "Not supported version field value 2"),
    ],
)
def test_a_file_that_is_no_plan_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        plans.document(text)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Unable to read file .*nope"):
        plans.read(str(tmp_path / "nope"))
    strange = tmp_path / "strange"
    strange.write_bytes(b"\xff")
    with pytest.raises(ValueError, match="not UTF-8"):
        plans.read(str(strange))


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"topic": "a"}, 'No such field exists: "partition"'),
        ({"topic": 1, "partition": 0}, '"topic" must be a text, not 1'),
        ({"topic": "a", "partition": "0"}, '"partition" must be a number'),
        ({"topic": "a", "partition": True}, '"partition" must be a number'),
    ],
)
def test_a_field_that_is_wrong_is_named(entry: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        plans.partition(entry)


def test_entries_are_objects_in_a_list() -> None:
    good = {"partitions": [{"topic": "a", "partition": 3}]}
    assert [*map(plans.partition, plans.entries(good, "partitions"))] == [TopicPartition("a", 3)]
    for bad in ({"partitions": {}}, {"partitions": [1]}):
        with pytest.raises(ValueError, match="must be a list of objects"):
            list(plans.entries(bad, "partitions"))


def test_what_comes_twice_is_told_once() -> None:
    assert plans.repeated([3, 1, 3, 2, 1, 3]) == [3, 1]


def test_exceptions_have_the_names_of_java() -> None:
    where = "org.apache.kafka.common.errors."
    assert plans.exception(ErrorCode.GROUP_ID_NOT_FOUND) == where + "GroupIdNotFoundException"
    assert plans.exception(ErrorCode.NON_EMPTY_GROUP) == where + "GroupNotEmptyException"
