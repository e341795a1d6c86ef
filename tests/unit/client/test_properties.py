"""Properties files mean here what they mean to Java."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.client.properties import parse, read


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=b", {"a": "b"}),
        (" a = b ", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("# no\n! nor this\n\na=b", {"a": "b"}),
        ("a=b,\\\n   c", {"a": "b,c"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a\\ b=c\\u0041\\td", {"a b": "cA\td"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=\\\n", {"a": ""}),
    ],
)
def test_a_line_is_a_name_and_a_value(text: str, found: dict[str, str]) -> None:
    assert parse(text) == found


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot read .*absent: No such file"):
        read(tmp_path / "absent")
    broken = tmp_path / "broken"
    broken.write_bytes(b"a=\xff")
    with pytest.raises(ValueError, match="not UTF-8"):
        read(broken)
