"""What a restore remembers, and what it makes of what an archive says of its topic."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from klamm.model.errors import KlammError, UsageError
from klamm.pipelines.archive.layout import Manifest, Part, sha256
from klamm.pipelines.archive.restore_topic import Limit, RestoreJournal, settings_of
from unit.pipelines.manifests import a_manifest


def test_two_restores_of_a_topic_are_one_too_many(tmp_path: Path) -> None:
    path = tmp_path / "orders" / "journal.json"
    one, other = RestoreJournal(path, Limit()), RestoreJournal(path, Limit())
    with one.alone(), pytest.raises(KlammError, match="orders is being restored by somebody else"):
        other.alone().__enter__()
    with other.alone():
        pass


def test_a_restore_is_taken_up_with_the_same_limit_only(tmp_path: Path) -> None:
    path = tmp_path / "journal.json"
    for limit in (Limit(), Limit(time_ms=5), Limit(offsets={1: 7, 0: 9})):
        RestoreJournal(path, limit).write("filling", "id")
        assert RestoreJournal(path, limit).read()["topic_id"] == "id"
        with pytest.raises(UsageError, match="of a restore with another --as-of"):
            RestoreJournal(path, Limit(offsets={0: 9})).read()
    RestoreJournal(path, Limit()).write("complete", "id")
    assert RestoreJournal(path, Limit(time_ms=5)).read()["state"] == "complete"


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"state": "filling"}'])
def test_a_journal_that_makes_no_sense(tmp_path: Path, text: str) -> None:
    path = tmp_path / "journal.json"
    path.write_text(text)
    with pytest.raises(KlammError, match="is damaged: delete the half-filled topic and this file"):
        RestoreJournal(path, Limit()).read()


def _of(tmp_path: Path, settings: object) -> Manifest:
    path = tmp_path / "topic.json"
    path.write_text(json.dumps(settings))
    return replace(a_manifest(tmp_path), settings=Part(path.name, sha256(path)))


def test_settings_of_a_topic(tmp_path: Path) -> None:
    known = {"partitions": 2, "configs": {}, "assignments": {"0": [1, 2], "1": [2, 3]}}
    found = settings_of(_of(tmp_path, known))
    assert (found.partitions, found.replicas, found.batch_bytes) == (2, 2, None)
    known["configs"] = {
        "segment.bytes": "5000",
        "max.message.bytes": "9000",
        "klamm.frozen": "true",
    }
    found = settings_of(_of(tmp_path, known))
    assert found.batch_bytes == 5000
    assert "klamm.frozen" not in found.configs
    known["assignments"] = {}  # no partition had a leader who could tell
    assert settings_of(_of(tmp_path, known)).replicas == -1


@pytest.mark.parametrize(
    "settings",
    [
        [],
        {},
        {"partitions": "many", "configs": {}, "assignments": {}},
        {"partitions": 1, "configs": [], "assignments": {}},
        {"partitions": 1, "configs": {}, "assignments": {"0": 3}},
    ],
)
def test_settings_that_make_no_sense(tmp_path: Path, settings: object) -> None:
    with pytest.raises(KlammError, match=r"topic\.json of the archive makes no sense"):
        settings_of(_of(tmp_path, settings))
