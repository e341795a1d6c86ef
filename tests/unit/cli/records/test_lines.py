"""Records survive the way through a pipe."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.cli.records import lines as records
from klamm.cli.records.lines import NewRecord
from klamm.client.aio.consumer import Consumed
from klamm.model.errors import UsageError

octets = st.none() | st.binary(max_size=20) | st.text(max_size=10).map(str.encode)


@given(octets, octets, st.lists(st.tuples(st.text(max_size=5), octets), max_size=3))
def test_what_consume_prints_produce_takes(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    record = Consumed("t", 3, 17, 5, key, value, tuple(headers))
    line = json.dumps(records.to_json(record)).encode()
    assert records.from_json(line, 1) == NewRecord(key, value, tuple(headers), 3)


def test_text_is_the_value_or_key_and_value() -> None:
    assert records.from_text(b"a:b", None) == NewRecord(None, b"a:b")
    assert records.from_text(b"a:b:c", b":") == NewRecord(b"a", b"b:c")
    with pytest.raises(UsageError, match="no key separator"):
        records.from_text(b"a", b":")


@pytest.mark.parametrize(
    "line",
    [b"", b"[]", b"7", b'{"partition": "x"}', b'{"value_base64": "?"}', b'{"headers": [{}]}'],
)
def test_what_is_no_record_is_refused(line: bytes) -> None:
    with pytest.raises(UsageError, match=r"^line 4: "):
        records.from_json(line, 4)


EVIL = Consumed("t", 0, 0, 0, b"k\x1b[2J", b"a\tb\nc\xff\xe2\x80\xae", ())


def test_a_record_as_text_is_one_line_that_steers_nothing() -> None:
    assert records.to_text(EVIL, None) == b"a\tb\\nc\\xff\\u202e\n"
    assert records.to_text(EVIL, "=") == b"k\\x1b[2J=a\tb\\nc\\xff\\u202e\n"
    line = records.to_line(EVIL)
    assert b"\x1b" not in line
    assert json.loads(line)["key"] == "k\x1b[2J"


def test_raw_is_byte_by_byte() -> None:
    assert records.to_raw(EVIL, "=") == b"k\x1b[2J=a\tb\nc\xff\xe2\x80\xae\n"
