"""Records by a pattern, out and in."""

from __future__ import annotations

import pytest

from klamm.cli.records.lines import NewRecord
from klamm.cli.records.patterns import PatternReader, PatternRecord, Writer
from klamm.client.aio.consumer import Consumed
from klamm.model.errors import UsageError

RECORD = Consumed("t", 3, 17, 5, b"k", b"v\x1b[2J", (("a", b"1"), ("b", None)))


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("%k=%v", b"k=v\\x1b[2J\n"),
        (r"%T-%p@%o\t%t %h 100%%", b"t-3@17\t5 a=1,b= 100%\n"),
        ("", b"\n"),
    ],
)
def test_a_record_is_shown(pattern: str, line: bytes) -> None:
    assert Writer(pattern, raw=False)(RECORD) == line


def test_raw_bytes_stay_as_they_are() -> None:
    assert Writer("%v", raw=True)(RECORD) == b"v\x1b[2J\n"


@pytest.mark.parametrize(
    ("pattern", "line", "record"),
    [
        ("%k=%v", b"k=v=w", PatternRecord(NewRecord(b"k", b"v=w"), None)),
        ("%k=%v", b"=", PatternRecord(NewRecord(None, None), None)),
        (
            "%p %t [%h] %v",
            b"3 5 [a=1,b=] x",
            PatternRecord(NewRecord(None, b"x", (("a", b"1"), ("b", b"")), 3), 5),
        ),
    ],
)
def test_a_line_is_read(pattern: str, line: bytes, record: PatternRecord) -> None:
    assert PatternReader(pattern)(line, 1) == record


@pytest.mark.parametrize(
    ("pattern", "line", "words"),
    [
        ("%x", b"", "a pattern has no field %x"),
        ("50%", b"", "a pattern has no field %"),
        (r"%k\q%v", b"", r"a pattern has no \q"),
        ("%k%v", b"", "nothing stands between %k and %v"),
        ("%o %v", b"", "%o can be printed but not written"),
        ("%k=%k", b"", "each of them once"),
        ("text", b"", "must name fields"),
        ("%k=%v", b"kv", "line 7 does not fit '%k=%v': 'kv'"),
        ("%p %v", b"x y", "line 7: partition 'x' is no number"),
        ("%h %v", b"a y", "line 7: headers are written a=1,b=2, not 'a'"),
    ],
)
def test_what_does_not_fit_is_said(pattern: str, line: bytes, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        PatternReader(pattern)(line, 7)
    assert words in str(refused.value)
