"""The file with the cluster's own digest."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.model.errors import UsageError
from klamm.store.serving import digest


def test_it_is_drawn_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    drawn = digest.read_or_draw(tmp_path)
    assert digest.read_or_draw(tmp_path) == drawn
    assert (tmp_path / digest.FILE_NAME).stat().st_mode & 0o777 == 0o600
    user, _, password = drawn.partition(":")
    assert user == "klamm"
    assert len(password) >= 40


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    digest.read_or_draw(tmp_path)
    path = tmp_path / digest.FILE_NAME
    path.chmod(0o640)
    with pytest.raises(UsageError, match="chmod 600"):
        digest.read(path)


@pytest.mark.parametrize("text", ["", "\n", "nothing", ":x", "x:", "a:b\nc:d", "a:" + "b" * 2000])
def test_what_is_no_digest_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "digest"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(UsageError, match="user:password"):
        digest.read(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no-such-file"):
        digest.read(tmp_path / "no-such-file")


def test_the_id_is_zookeepers() -> None:
    assert digest.digest_id(b"me:secret") == "me:016djjlksVQS5RgX3M7biBGyYwY="
