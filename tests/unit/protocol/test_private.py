"""Private bodies: JSON objects, parts of which may be written already."""

from __future__ import annotations

import pytest

from klamm.protocol import private
from klamm.protocol.private import Written


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"entries": Written(b"[]")},
        {"a": 1, "entries": Written(b'[{"b":2},{"c":"\xc3\xa9"}]'), "d": None},
        {"x": Written(b"1"), 'q"uote': Written(b'"y"'), "last": "z"},
    ],
)
def test_what_is_written_already_is_passed_on(body: dict[str, object]) -> None:
    told = private.decode(private.encode(body))
    assert told == {
        name: private.decode(b'{"v":' + value.text + b"}")["v"]
        if isinstance(value, Written)
        else value
        for name, value in body.items()
    }
